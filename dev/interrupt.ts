const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** What `signal.reason` is after Ctrl-C and its like. */
export class Interrupted extends Error {
  constructor() {
    super("It was interrupted.");
    this.name = "Interrupted";
  }
}

/**
 * Fires at the first Ctrl-C, SIGTERM or hang-up, and when nobody reads the output any more. What comes after that changes
 * nothing: an impatient second Ctrl-C must not kill the one who is stopping the others.
 */
export function interruptSignal(): AbortSignal {
  const controller = new AbortController();
  const interrupt = () => controller.abort(new Interrupted());
  for (const signal of SIGNALS) process.on(signal, interrupt);
  for (const stream of [process.stdout, process.stderr]) stream.on("error", interrupt);
  return controller.signal;
}

/** Work's result, unless the signal fires first: then its reason is thrown and the work is left to itself. */
export async function unlessInterrupted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = () => reject(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
