/** Thrown when a condition did not come true in time; the message names what was waited for. */
class NotInTime extends Error {}

/**
 * Asks `attempt` again until it answers something other than null.
 * @param signal ends the waiting: its reason is thrown
 * @param what completes the sentence "waited N s for …"
 * @throws NotInTime after `timeoutMs`; whatever `attempt` throws passes through at once.
 */
export async function until<T>(
  what: string,
  attempt: () => Promise<T | null>,
  { timeoutMs, everyMs = 100, signal }: { timeoutMs: number; everyMs?: number; signal?: AbortSignal | undefined },
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    signal?.throwIfAborted();
    const answer = await attempt();
    if (answer !== null) return answer;
    if (performance.now() >= deadline) throw new NotInTime(`waited ${timeoutMs / 1000} s for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

/** The answer of an address, or null while nobody answers there with success. */
export async function answerOf(url: string): Promise<Response | null> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(5_000) });
    if (response.ok) return response;
    await response.body?.cancel();
    return null;
  } catch {
    return null;
  }
}
