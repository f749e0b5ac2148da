import { randomBytes } from "node:crypto";
import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { DEFAULTS } from "../../domain/defaults.ts";
import {
  type AgentMessage,
  type ControlMessage,
  ControlMessageSchema,
  type Exchange,
  type ExchangeAnswer,
  ExchangeAnswerSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { type Caller, isSameCaller } from "./caller.ts";
import { EdgeConnection } from "./edge-connection.ts";
import { Refusal } from "./refusal.ts";
import type { OpenSession, SessionContext } from "./sessions.ts";

interface Kept {
  readonly message: ControlMessage;
  readonly bytes: number;
}

/**
 * A session by unary calls. What the edge says is kept until the agent says that it has it; what a repeated call carries
 * is not sent again. Of two calls at once the later one gets the answer: the earlier one's caller has given it up.
 */
export class ExchangeSession implements OpenSession {
  readonly mode = "unary";
  readonly id = randomBytes(16).toString("hex");
  readonly #context: SessionContext;
  readonly #edge: EdgeConnection;
  readonly #toSend: AgentMessage[] = [];
  readonly #kept: Kept[] = [];
  #keptBytes = 0;
  #isOpen = false;
  #sequence = 0n;
  /** Control messages that the agent has. */
  #received = 0n;
  #waiting: (() => void) | null = null;
  #refusal: Refusal | null = null;
  #idle: NodeJS.Timeout;

  constructor(context: SessionContext) {
    this.#context = context;
    this.#idle = this.#idleTimer();
    this.#edge = new EdgeConnection(
      context.edgeUrl,
      context.caller,
      {
        onOpen: () => {
          this.#isOpen = true;
          for (const message of this.#toSend.splice(0)) this.#edge.send(message);
        },
        onMessage: (message) => this.#keep(message),
        onDrain: () => undefined,
        onEnd: (refusal) =>
          this.end(refusal ?? new Refusal(status.UNAVAILABLE, "edge_unreachable", "The edge closed.")),
      },
      context.metrics,
    );
  }

  get bufferedBytes(): number {
    return this.#edge.bufferedBytes + this.#keptBytes;
  }

  isOf(caller: Caller): boolean {
    return isSameCaller(this.#context.caller, caller);
  }

  /**
   * One call. Answers what the edge has said and the agent does not have yet, or waits for it as long as asked.
   * @throws Refusal when the session has ended and there is nothing left to tell
   */
  async call({ sequence, messages, received, waitMs }: Exchange): Promise<ExchangeAnswer> {
    this.#idle.refresh();
    this.#forget(received);
    if (sequence > this.#sequence) {
      this.#sequence = sequence;
      for (const message of messages) this.#send(message);
    }
    if (this.#kept.length === 0 && this.#refusal === null) await this.#wait(waitMs);
    this.#idle.refresh();
    if (this.#kept.length === 0 && this.#refusal !== null) throw this.#refusal;
    return create(ExchangeAnswerSchema, {
      exchangeId: this.id,
      messages: this.#kept.map(({ message }) => message),
      closed: this.#refusal !== null,
    });
  }

  end(refusal: Refusal): void {
    if (this.#refusal !== null) return;
    this.#refusal = refusal;
    clearTimeout(this.#idle);
    this.#edge.close();
    this.#context.refused(refusal);
    this.#waiting?.();
    // The next call, if there is one, hears of the end and of what came before it.
    setTimeout(() => this.#context.closed(this), this.#kept.length > 0 ? ENDED_KEPT_MS : 0).unref();
  }

  #send(message: AgentMessage): void {
    if (!this.#isOpen) {
      if (this.#toSend.length < EARLY_MESSAGES) this.#toSend.push(message);
    } else if (!this.#edge.send(message)) {
      this.end(new Refusal(status.UNAVAILABLE, "edge_unreachable", "The edge takes nothing."));
    }
  }

  #keep(message: ControlMessage): void {
    const bytes = toBinary(ControlMessageSchema, message).byteLength;
    this.#kept.push({ message, bytes });
    this.#keptBytes += bytes;
    if (this.#keptBytes > DEFAULTS.bridge.bufferBytes) this.#edge.pause();
    this.#waiting?.();
  }

  #forget(received: bigint): void {
    while (this.#received < received) {
      const kept = this.#kept.shift();
      if (kept === undefined) return;
      this.#received += 1n;
      this.#keptBytes -= kept.bytes;
    }
    if (this.#keptBytes <= DEFAULTS.bridge.bufferBytes) this.#edge.resume();
  }

  async #wait(waitMs: number): Promise<void> {
    this.#waiting?.();
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, Math.min(waitMs, DEFAULTS.bridge.exchangeWaitMs));
    this.#waiting = resolve;
    await promise;
    clearTimeout(timer);
    if (this.#waiting === resolve) this.#waiting = null;
  }

  #idleTimer(): NodeJS.Timeout {
    const idle = new Refusal(status.NOT_FOUND, "exchange_lost", "Nobody called for too long.");
    return setTimeout(() => this.end(idle), DEFAULTS.bridge.exchangeIdleMs);
  }
}

/** A Hello, and whatever an agent may send behind it before the edge has taken the connection. */
const EARLY_MESSAGES = 8;
const ENDED_KEPT_MS = 10_000;
