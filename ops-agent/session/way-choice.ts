export interface WayChoiceOptions {
  /** How many ways there are; the first is the preferred one. */
  readonly ways: number;
  /** Sessions that fail in a row on one way before the next is taken. */
  readonly failuresPerWay: number;
  /** How long the agent stays on another way before it tries the first again, in milliseconds. */
  readonly returnMs: number;
}

/** What a try on a way came to. `held`: there was a session. */
export type Attempt = "held" | "failed" | "tampered";

/** Which way the agent takes next. All times are the agent's own monotonic milliseconds. */
export class WayChoice {
  readonly #options: WayChoiceOptions;
  #index = 0;
  #failures = 0;
  #returnAt = Number.POSITIVE_INFINITY;

  constructor(options: WayChoiceOptions) {
    this.#options = options;
  }

  get index(): number {
    return this.#index;
  }

  /** A way that tampers is left at once, one that fails after some tries; after the last comes the first. */
  ended(attempt: Attempt, now: number): void {
    this.#failures = attempt === "held" ? 0 : this.#failures + 1;
    if (attempt === "tampered" || this.#failures >= this.#options.failuresPerWay) this.#next(now);
  }

  #next(now: number): void {
    const left = this.#index;
    this.#failures = 0;
    this.#index = (left + 1) % this.#options.ways;
    if (left === 0) this.#returnAt = now + this.#options.returnMs;
    if (this.#index === 0) this.#returnAt = Number.POSITIVE_INFINITY;
  }

  /** How long until the first way is to be tried again; null while it is the one taken. */
  returnInMs(now: number): number | null {
    return this.#index === 0 ? null : Math.max(0, this.#returnAt - now);
  }

  /** Takes the first way again. */
  toFirst(): void {
    this.#index = 0;
    this.#failures = 0;
  }

  /** The first way answers nothing yet: it is looked at again later. */
  postponeReturn(now: number): void {
    this.#returnAt = now + this.#options.returnMs;
  }
}
