import type { EpochMs } from "../node/node.ts";

/** Something that an object will do at a time: stored as a row, or derived from what it knows. */
export interface Timer<Kind extends string = string> {
  readonly kind: Kind;
  /** Tells timers of one kind apart. */
  readonly key: string;
  readonly dueAt: EpochMs;
}

/**
 * When an object's one alarm has to ring: at its earliest timer, at least 1 ms ahead (an alarm set for now may stall);
 * null when it has nothing to wait for.
 */
export function nextAlarm(timers: readonly Pick<Timer, "dueAt">[], now: EpochMs): EpochMs | null {
  if (timers.length === 0) return null;
  const earliest = timers.reduce((least, timer) => Math.min(least, timer.dueAt), Number.POSITIVE_INFINITY);
  return Math.max(earliest, now + 1);
}

/** How long a timer that failed `attempts` times waits: 1 s, doubled each time, at most five minutes. */
export function timerBackoffMs(attempts: number): number {
  return Math.min(1_000 * 2 ** Math.min(attempts - 1, 20), 300_000);
}
