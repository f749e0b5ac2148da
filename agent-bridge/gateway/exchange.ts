import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import {
  type AgentMessage,
  type Exchange,
  type ExchangeAnswer,
  ExchangeAnswerSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { type Caller, isSameCaller } from "./caller.ts";
import { EdgeConnection } from "./edge-connection.ts";
import { KeptMessages } from "./kept-messages.ts";
import { edgeUnreachable, Refusal } from "./refusal.ts";
import type { OpenSession, SessionContext } from "./sessions.ts";

/**
 * A session by unary calls. What the edge says is kept until the agent says that it has it; what a repeated call carries
 * is not sent again. Of two calls at once the later one gets the answer: the earlier one's caller has given it up.
 */
export class ExchangeSession implements OpenSession {
  readonly mode = "unary";
  readonly id = randomBytes(16).toString("hex");
  readonly #context: SessionContext;
  readonly #forgotten: () => void;
  readonly #edge: EdgeConnection;
  readonly #kept: KeptMessages;
  /** Settles when the edge has taken the connection, or never will. */
  readonly #opened = Promise.withResolvers<void>();
  /** While the edge takes less than the agent says. */
  #drained: PromiseWithResolvers<void> | null = null;
  /** While the agent takes less than the edge says. */
  #untaken: NodeJS.Timeout | null = null;
  #idle: NodeJS.Timeout;
  /** Calls that are under way: while there is one the session is not idle. */
  #calls = 0;
  #peer: string;
  #sequence = 0n;
  #waiting: (() => void) | null = null;
  #refusal: Refusal | null = null;

  /** @param forgotten called when the session has ended and its last call had time to hear of it */
  constructor(context: SessionContext, forgotten: () => void) {
    this.#context = context;
    this.#peer = context.caller.peer;
    this.#forgotten = forgotten;
    this.#kept = new KeptMessages(context.limits.bufferBytes);
    this.#idle = this.#awaitCall();
    this.#edge = new EdgeConnection(context, {
      onOpen: () => this.#opened.resolve(),
      onMessage: (message, bytes) => {
        this.#kept.keep(message, bytes);
        this.#slowEdge();
        this.#waiting?.();
      },
      onDrain: () => this.#drain(),
      onEnd: (refusal) => this.end(refusal),
    });
  }

  get bufferedBytes(): number {
    return this.#edge.bufferedBytes + this.#kept.bytes;
  }

  get peer(): string | null {
    return this.#edge.isOpen ? this.#peer : null;
  }

  /** Whether it is that caller's session, from whichever connection. */
  isOf(caller: Caller): boolean {
    if (!isSameCaller(this.#context.caller, caller)) return false;
    this.#peer = caller.peer;
    return true;
  }

  /**
   * One call. Answers what the edge has said and the agent does not have yet, or waits for it as long as asked, and as
   * long as the caller is there.
   * @throws Refusal when the session has ended and there is nothing left to tell
   */
  async call({ sequence, messages, received, waitMs }: Exchange, abandoned: AbortSignal): Promise<ExchangeAnswer> {
    clearTimeout(this.#idle);
    this.#calls += 1;
    this.#kept.forget(received);
    this.#slowEdge();
    if (sequence > this.#sequence) {
      this.#sequence = sequence;
      await this.#pass(messages);
    }
    if (this.#kept.isEmpty && this.#refusal === null) await this.#wait(waitMs, abandoned);
    this.#calls -= 1;
    if (this.#calls === 0 && this.#refusal === null) this.#idle = this.#awaitCall();
    if (this.#kept.isEmpty && this.#refusal !== null) throw this.#refusal;
    const { messages: next, isAll } = this.#kept.next();
    const closed = isAll && this.#refusal !== null;
    return create(ExchangeAnswerSchema, { exchangeId: this.id, messages: next, closed });
  }

  end(refusal: Refusal): void {
    if (this.#refusal !== null) return;
    this.#refusal = refusal;
    clearTimeout(this.#idle);
    this.#edge.close();
    this.#context.refused(refusal);
    this.#context.closed(this);
    this.#opened.resolve();
    this.#drain();
    this.#slowEdge();
    this.#waiting?.();
    setTimeout(this.#forgotten, ENDED_KEPT_MS).unref();
  }

  /** The answer to a call waits until the edge takes what it carried: so a slow edge slows its agent. */
  async #pass(messages: readonly AgentMessage[]): Promise<void> {
    await this.#opened.promise;
    if (this.#drained !== null) this.end(edgeTakesNothing());
    for (const message of messages) {
      if (this.#refusal !== null) return;
      if (!this.#edge.send(message)) this.#drained ??= Promise.withResolvers();
    }
    if (this.#drained === null) return;
    const patience = setTimeout(() => this.end(edgeTakesNothing()), this.#context.limits.exchangeWaitMs);
    await this.#drained.promise;
    clearTimeout(patience);
  }

  #drain(): void {
    this.#drained?.resolve();
    this.#drained = null;
  }

  /** The edge waits while its agent does not take what there is; an agent that never takes it has lost its session. */
  #slowEdge(): void {
    if (this.#kept.isFull && this.#refusal === null) {
      this.#edge.pause();
      this.#untaken ??= setTimeout(() => this.end(agentTakesNothing()), this.#context.limits.exchangeIdleMs);
      return;
    }
    if (this.#untaken === null) return;
    clearTimeout(this.#untaken);
    this.#untaken = null;
    this.#edge.resume();
  }

  #awaitCall(): NodeJS.Timeout {
    const idle = new Refusal(status.NOT_FOUND, "exchange_lost", "Nobody called for too long.");
    return setTimeout(() => this.end(idle), this.#context.limits.exchangeIdleMs);
  }

  async #wait(waitMs: number, abandoned: AbortSignal): Promise<void> {
    this.#waiting?.();
    const { promise, resolve } = Promise.withResolvers<void>();
    // Who has hung up is not waited for: an agent that was killed is idle from now on.
    abandoned.addEventListener("abort", () => resolve(), { once: true });
    const timer = setTimeout(resolve, Math.min(waitMs, this.#context.limits.exchangeWaitMs));
    this.#waiting = resolve;
    await promise;
    clearTimeout(timer);
    if (this.#waiting === resolve) this.#waiting = null;
  }
}

/** The next call after a session's end hears of it, and of what came before it, for so long. */
const ENDED_KEPT_MS = 10_000;

function edgeTakesNothing(): Refusal {
  return edgeUnreachable("The edge takes nothing.");
}

function agentTakesNothing(): Refusal {
  return new Refusal(status.RESOURCE_EXHAUSTED, "exchange_lost", "The agent does not take what it is told.");
}
