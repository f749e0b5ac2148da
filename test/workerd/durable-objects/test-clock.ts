import type { ClockSource } from "../../../durable-objects/shared/clock.ts";
import { useClock } from "../../../durable-objects/shared/clock.ts";

const DAY_MS = 86_400_000;

/**
 * A clock that stands still until it is moved. It stands a day ahead, so that the runtime never rings an alarm by
 * itself: tests ring it. What the runtime stamps (auto-responses) is read as the time that stood here at that moment.
 */
export class TestClock implements ClockSource {
  readonly #moves: { readonly from: number; readonly value: number }[] = [];

  constructor() {
    this.#moves.push({ from: 0, value: Date.now() + DAY_MS });
    useClock(this);
  }

  now(): number {
    return this.#moves.at(-1)?.value ?? 0;
  }

  at(stamp: Date): number {
    return this.#moves.findLast((move) => move.from <= stamp.getTime())?.value ?? 0;
  }

  /** Moves the clock, and lets a millisecond pass on both sides so that stamps fall on the right one. */
  async set(value: number): Promise<void> {
    await scheduler.wait(2);
    this.#moves.push({ from: Date.now(), value });
    await scheduler.wait(2);
  }

  async forward(ms: number): Promise<void> {
    await this.set(this.now() + ms);
  }
}
