import type { BeatPlan } from "./beat-figures.ts";
import type { HourPlan } from "./hour.ts";
import type { MemoryPlan } from "./memory.ts";

/** How much is measured, and for how long. */
export interface Plan {
  /** Numbers of nodes, the greatest last. */
  readonly sizes: readonly number[];
  readonly memory: MemoryPlan;
  readonly paces: (nodes: number) => readonly BeatPlan[];
  readonly idleMs: number;
  readonly hour: HourPlan;
}

export const FULL: Plan = {
  sizes: [100, 1_000],
  memory: { batches: 4, nodesPerBatch: 500, spreadMs: 30_000, settleMs: 140_000 },
  paces: (nodes) => [
    { pace: "closed loop", beats: "closed loop", windowMs: 5_000, rounds: 5 },
    { pace: "1,000 a second", beats: 1_000, windowMs: 8_000, rounds: 5 },
    { pace: "each 10 s", beats: nodes / 10, windowMs: 20_000, rounds: 3 },
  ],
  idleMs: 10_000,
  hour: { nodes: 300, hours: 1, rounds: 3, settleMs: 30_000 },
};

/** Shows that everything works; its figures mean nothing. */
export const QUICK: Plan = {
  sizes: [5, 20],
  memory: { batches: 3, nodesPerBatch: 20, spreadMs: 200, settleMs: 2_000 },
  paces: (nodes) => [
    { pace: "closed loop", beats: "closed loop", windowMs: 500, rounds: 2 },
    { pace: "each 10 s", beats: nodes, windowMs: 500, rounds: 1 },
  ],
  idleMs: 500,
  hour: { nodes: 10, hours: 0.03, rounds: 1, settleMs: 2_000 },
};
