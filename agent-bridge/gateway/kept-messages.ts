import { DEFAULTS } from "../../domain/defaults.ts";
import type { ControlMessage } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";

interface Kept {
  readonly message: ControlMessage;
  readonly bytes: number;
}

/** What the edge has said in one session and its agent does not have yet, in order. */
export class KeptMessages {
  readonly #limitBytes: number;
  readonly #kept: Kept[] = [];
  #received = 0n;
  #bytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return this.#kept.length === 0;
  }

  /** More is kept than shall be. */
  get isFull(): boolean {
    return this.#bytes > this.#limitBytes;
  }

  keep(message: ControlMessage, bytes: number): void {
    // An empty message is not for nothing either.
    const cost = bytes + MESSAGE_COST;
    this.#kept.push({ message, bytes: cost });
    this.#bytes += cost;
  }

  /** @param received how many messages of the session the agent says that it has */
  forget(received: bigint): void {
    const count = Math.min(Number(received - this.#received), this.#kept.length);
    for (const { bytes } of this.#kept.splice(0, Math.max(0, count))) {
      this.#received += 1n;
      this.#bytes -= bytes;
    }
  }

  /** As many as fit one answer, one at least; they stay until the agent says that it has them. */
  next(): { readonly messages: ControlMessage[]; readonly isAll: boolean } {
    let bytes = 0;
    const excess = this.#kept.findIndex((kept) => {
      bytes += kept.bytes;
      return bytes > DEFAULTS.agent.maxFrameBytes;
    });
    const count = excess < 0 ? this.#kept.length : Math.max(1, excess);
    const messages = this.#kept.slice(0, count).map(({ message }) => message);
    return { messages, isAll: count === this.#kept.length };
  }
}

const MESSAGE_COST = 256;
