/** The local runtime never fires cron triggers by itself; this does, as the platform would once a minute. */
export interface CronDriver {
  stop(): void;
}

const SCHEDULED_PATH = "/cdn-cgi/handler/scheduled?cron=*+*+*+*+*";

export function startCronDriver(
  workerUrl: () => string,
  everyMs: number,
  onError: (error: unknown) => void,
): CronDriver {
  const timer = setInterval(() => {
    // A Worker that restarts at this moment misses a tick, as a deployed one might; the next tick makes up for it.
    runCron(workerUrl()).catch(onError);
  }, everyMs);
  return { stop: () => clearInterval(timer) };
}

/** Fires the cron trigger once and waits for its handler. */
export async function runCron(workerUrl: string): Promise<void> {
  const response = await fetch(`${workerUrl}${SCHEDULED_PATH}`, { signal: AbortSignal.timeout(55_000) });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`The cron trigger answered ${response.status}.`);
}
