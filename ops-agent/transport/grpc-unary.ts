import { setTimeout as delay } from "node:timers/promises";
import { create, toBinary } from "@bufbuild/protobuf";
import { type Client, type ClientUnaryCall, type Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { DEFAULTS } from "../../domain/defaults.ts";
import {
  type AgentMessage,
  AgentMessageSchema,
  type Exchange,
  type ExchangeAnswer,
  ExchangeAnswerSchema,
  ExchangeSchema,
  HeartbeatRequestSchema,
  ReportRequestSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { agentGatewayService } from "../../proto/grpc.ts";
import type { AgentMessageInit } from "../session/messages.ts";
import { endOf } from "./grpc-end.ts";
import type { GrpcTransportOptions } from "./grpc-stream.ts";
import { CLOSE_MS, lost, OPEN_MS, type Transport, type TransportEnd, type TransportHandlers } from "./way.ts";

/** After a call that failed, or one that was to wait and did not. */
const PAUSE_MS = 250;
/** Calls that fail one after the other for this long are a lost session: another is quickly had. */
const REPEAT_MS = 3_000;
/** How long a call waits for the answer to a Hello, a Proof or a Ping that it carries. */
const REPLY_MS = 1_000;
/** What may have gone wrong on the way alone: the same call is made again. */
const WORTH_REPEATING: readonly status[] = [
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.CANCELLED,
  status.UNKNOWN,
  status.INTERNAL,
];

interface Outgoing {
  readonly message: AgentMessage;
  readonly bytes: number;
}

/** A call that is made until it is answered. */
interface Asked {
  readonly sequence: bigint;
  readonly messages: readonly AgentMessage[];
  readonly waitMs: number;
}

/**
 * A session by unary calls, one at a time. Each carries what there is to say and waits for what the control plane says;
 * one that only waits is broken off when there is something to say. The bridge keeps its messages until a call
 * says that they have come, and does not pass on twice what a repeated call carries, so that lost answers do no harm.
 */
export class GrpcUnary implements Transport {
  readonly #client: Client;
  readonly #metadata: Metadata;
  readonly #handlers: TransportHandlers;
  readonly #outbox: Outgoing[] = [];
  #exchangeId = "";
  #sequence = 0n;
  #received = 0n;
  #call: ClientUnaryCall | null = null;
  #isWaiting = false;
  /** Since when calls fail one after the other. */
  #failingSince: number | null = null;
  #isClosing = false;
  #isEnded = false;
  readonly #done: Promise<void>;

  constructor({ client, metadata, handlers }: GrpcTransportOptions) {
    this.#client = client;
    this.#metadata = metadata;
    this.#handlers = handlers;
    this.#done = this.#converse();
  }

  send(message: AgentMessageInit): void {
    if (this.#isEnded || this.#isClosing) return;
    const full = create(AgentMessageSchema, message);
    this.#outbox.push({ message: full, bytes: toBinary(AgentMessageSchema, full).length });
    if (total(this.#outbox) > DEFAULTS.bridge.bufferBytes) this.#end(lost("the bridge takes nothing"));
    else if (this.#isWaiting) this.#call?.cancel();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    if (this.#isWaiting) this.#call?.cancel();
    await Promise.race([this.#done, delay(CLOSE_MS)]);
    this.abort();
  }

  abort(): void {
    this.#isEnded = true;
    this.#call?.cancel();
    this.#client.close();
  }

  async #converse(): Promise<void> {
    // What is sent at once, the Hello, goes with the first call.
    await Promise.resolve();
    while (!this.#isEnded && !(this.#isClosing && this.#outbox.length === 0)) {
      this.#sequence += 1n;
      const messages = this.#takeOutbox();
      await this.#ask({ sequence: this.#sequence, messages, waitMs: this.#isClosing ? 0 : waitFor(messages) });
    }
  }

  /** As much as fits a call well. */
  #takeOutbox(): readonly AgentMessage[] {
    let bytes = 0;
    const fitting = this.#outbox.findIndex((outgoing) => {
      bytes += outgoing.bytes;
      return bytes > DEFAULTS.agent.maxFrameBytes / 2;
    });
    const count = fitting < 0 ? this.#outbox.length : Math.max(1, fitting);
    return this.#outbox.splice(0, count).map(({ message }) => message);
  }

  /** Makes a call again until it is answered, was only waiting and is no longer needed, or the session is lost. */
  async #ask(asked: Asked): Promise<void> {
    const isFirst = this.#exchangeId === "";
    while (!this.#isEnded) {
      const since = performance.now();
      const answer = await this.#callOnce(asked);
      if (this.#isEnded) return;
      if (!(answer instanceof Error)) return this.#take(answer, asked, performance.now() - since);
      if (asked.messages.length === 0 && this.#hasReasonToHurry()) return;
      // Without an exchange's id a repeated call would open another one.
      if (isFirst || !this.#isWorthRepeating(answer)) return this.#end(endOf(answer));
      await delay(PAUSE_MS);
    }
  }

  #hasReasonToHurry(): boolean {
    return this.#outbox.length > 0 || this.#isClosing;
  }

  #isWorthRepeating({ code, metadata }: ServiceError): boolean {
    this.#failingSince ??= performance.now();
    if (!WORTH_REPEATING.includes(code) || performance.now() - this.#failingSince > REPEAT_MS) return false;
    // What the bridge refuses by name was not lost on the way.
    return metadata.get("orrery-code").length === 0;
  }

  async #take({ exchangeId, messages, closed }: ExchangeAnswer, { waitMs }: Asked, lastedMs: number): Promise<void> {
    this.#failingSince = null;
    this.#exchangeId = exchangeId;
    this.#received += BigInt(messages.length);
    for (const message of messages) {
      if (!this.#isEnded) this.#handlers.onMessage(message);
    }
    if (closed || exchangeId === "") return this.#end(lost("the bridge ended the session"));
    // A bridge that does not wait must not make us ask without end.
    if (messages.length === 0 && waitMs > PAUSE_MS && lastedMs < PAUSE_MS) await delay(PAUSE_MS);
  }

  #callOnce({ sequence, messages, waitMs }: Asked): Promise<ExchangeAnswer | ServiceError> {
    const exchange = create(ExchangeSchema, {
      exchangeId: this.#exchangeId,
      sequence,
      messages: [...messages],
      received: this.#received,
      waitMs,
    });
    const { promise, resolve } = Promise.withResolvers<ExchangeAnswer | ServiceError>();
    this.#isWaiting = messages.length === 0;
    this.#call = this.#start(exchange, Date.now() + waitMs + OPEN_MS, resolve);
    return promise.finally(() => {
      this.#isWaiting = false;
      this.#call = null;
    });
  }

  /** Beats, and waiting for what may come, are Heartbeats; all else is a Report. */
  #start(
    exchange: Exchange,
    deadline: number,
    resolve: (result: ExchangeAnswer | ServiceError) => void,
  ): ClientUnaryCall {
    const { Heartbeat, Report } = agentGatewayService;
    const settle = (error: ServiceError | null, answer: ExchangeAnswer | undefined) =>
      resolve(error ?? answer ?? create(ExchangeAnswerSchema, { closed: true }));
    const isBeat = exchange.messages.every(({ body }) => body.case === "ping");
    return isBeat
      ? this.#client.makeUnaryRequest(
          Heartbeat.path,
          Heartbeat.requestSerialize,
          Heartbeat.responseDeserialize,
          create(HeartbeatRequestSchema, { exchange }),
          this.#metadata,
          { deadline },
          (error, response) => settle(error, response?.answer),
        )
      : this.#client.makeUnaryRequest(
          Report.path,
          Report.requestSerialize,
          Report.responseDeserialize,
          create(ReportRequestSchema, { exchange }),
          this.#metadata,
          { deadline },
          (error, response) => settle(error, response?.answer),
        );
  }

  #end(end: TransportEnd): void {
    if (this.#isEnded) return;
    this.abort();
    this.#handlers.onEnd(end);
  }
}

function total(outbox: readonly Outgoing[]): number {
  return outbox.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** What is not sealed yet, and a Ping, is answered at once; otherwise a call that says something waits for nothing. */
function waitFor(messages: readonly AgentMessage[]): number {
  if (messages.length === 0) return DEFAULTS.bridge.exchangeWaitMs;
  return messages.some(({ body }) => body.case !== "sealed") ? REPLY_MS : 0;
}
