import { DEFAULTS } from "../../domain/defaults.ts";
import type { EpochMs } from "../../domain/node/node.ts";

/**
 * How many frames an installation may still send that nobody asked for. Each costs a transaction, and its news a row and
 * a message: an agent that has gone mad must not make its node's object deaf. Kept in memory alone, since a flood keeps
 * the object awake; and by installation, so that a new connection is no new budget.
 */
export class FrameBudget {
  readonly #windows = new Map<number, { readonly since: EpochMs; readonly frames: number }>();

  spend(generation: number, at: EpochMs): void {
    const { since, frames } = this.#window(generation, at);
    this.#windows.set(generation, { since, frames: frames + 1 });
  }

  isSpent(generation: number, at: EpochMs): boolean {
    return this.#window(generation, at).frames >= DEFAULTS.agent.framesPerWindow;
  }

  #window(generation: number, at: EpochMs): { readonly since: EpochMs; readonly frames: number } {
    const window = this.#windows.get(generation);
    const isOver = window === undefined || at - window.since >= DEFAULTS.agent.frameWindowMs;
    return isOver ? { since: at, frames: 0 } : window;
  }
}
