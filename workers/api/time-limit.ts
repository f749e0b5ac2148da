/**
 * Waits no longer than this; the work itself goes on, and what becomes of it then nobody hears.
 * @throws an error without a code when the time is up
 */
export async function withinTime<T>(work: Promise<T>, limitMs: number): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${limitMs} ms`)), limitMs);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}
