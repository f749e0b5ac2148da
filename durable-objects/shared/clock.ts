import type { EpochMs } from "../../domain/node/node.ts";

/** Where the objects take the time from; tests put a clock here that they can move. */
export interface ClockSource {
  now(): EpochMs;
  /** The time, on this clock, of an instant that the runtime has stamped (an auto-response). */
  at(stamp: Date): EpochMs;
}

const systemClock: ClockSource = {
  now: () => Date.now(),
  at: (stamp) => stamp.getTime(),
};

let source: ClockSource = systemClock;

export function now(): EpochMs {
  return source.now();
}

export function stampedAt(stamp: Date): EpochMs {
  return source.at(stamp);
}

/** Replaces the clock; null puts the system's back. */
export function useClock(replacement: ClockSource | null): void {
  source = replacement ?? systemClock;
}
