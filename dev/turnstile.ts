const READY_FOR_QUERY = 0x5a;
const IDLE = 0x49;

/** Lets one at a time through, in the order in which they came. */
export class Turnstile {
  #last: Promise<void> = Promise.resolve();

  /** Resolves when it is the caller's turn, with what ends it. */
  async enter(): Promise<() => void> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    await before;
    return resolve;
  }
}

/** Follows a Postgres server's messages, wherever the chunks are cut. */
export class ReadyWatcher {
  #head: Buffer = Buffer.alloc(0);
  #skip = 0;

  /** What the last ReadyForQuery in the chunk says: `idle`, `in_transaction` (also a failed one), or null without one. */
  sees(chunk: Buffer): "idle" | "in_transaction" | null {
    let rest = chunk;
    let seen: "idle" | "in_transaction" | null = null;
    while (rest.length > 0) {
      const skipped = Math.min(this.#skip, rest.length);
      this.#skip -= skipped;
      rest = rest.subarray(skipped);
      // Type, length, and the first byte of the content, which every message but the empty ones has.
      const taken = rest.subarray(0, this.#wanted() - this.#head.length);
      this.#head = Buffer.concat([this.#head, taken]);
      rest = rest.subarray(taken.length);
      if (this.#head.length < this.#wanted()) continue;
      if (this.#head[0] === READY_FOR_QUERY) seen = this.#head[5] === IDLE ? "idle" : "in_transaction";
      this.#skip = Math.max(0, this.#head.readInt32BE(1) + 1 - this.#head.length);
      this.#head = Buffer.alloc(0);
    }
    return seen;
  }

  #wanted(): number {
    return this.#head[0] === READY_FOR_QUERY ? 6 : 5;
  }
}
