import { create } from "@bufbuild/protobuf";
import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import {
  type AgentMessage,
  type ControlMessage,
  ControlMessageSchema,
  type EnrollRequest,
  type EnrollResponse,
  type ExchangeAnswer,
  ExchangeAnswerSchema,
  type HeartbeatRequest,
  HeartbeatResponseSchema,
  type ReportRequest,
  ReportResponseSchema,
} from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { agentGatewayService } from "../../../proto/grpc.ts";
import type { ControlPeer } from "./control-peer.ts";
import type { ControlSide } from "./control-side.ts";

/** A session by unary calls as a bridge keeps it. */
interface Kept {
  readonly side: ControlSide;
  seen: bigint;
  /** Messages that the agent has said it has. */
  taken: bigint;
  readonly messages: ControlMessage[];
  wake: () => void;
}

/** The gRPC end of a control peer: what a bridge is to an agent, and what it may do wrong. */
export class BridgePeer {
  /** Answers to unary calls that are lost after the call has had its effect. */
  lostAnswers = 0;
  /** Metadata of every session's calls. */
  readonly metadata: Metadata[] = [];
  readonly calls = { Heartbeat: 0, Report: 0 };
  /** While true, calls are refused. */
  isRefusing = false;
  readonly #peer: ControlPeer;
  readonly #exchanges = new Map<string, Kept>();
  readonly #streams = new Set<ServerDuplexStream<AgentMessage, ControlMessage>>();
  #server = new Server();
  #port = 0;

  static async start(peer: ControlPeer, credentials?: ServerCredentials): Promise<BridgePeer> {
    const bridge = new BridgePeer(peer);
    await bridge.listen(credentials);
    return bridge;
  }

  constructor(peer: ControlPeer) {
    this.#peer = peer;
  }

  get url(): string {
    return `grpc://127.0.0.1:${this.#port}`;
  }

  /** Listens, on the port that it had before if it had one. */
  async listen(credentials = ServerCredentials.createInsecure()): Promise<void> {
    this.#server = new Server();
    this.#server.addService(agentGatewayService, {
      Enroll: (call: ServerUnaryCall<EnrollRequest, EnrollResponse>, answer: sendUnaryData<EnrollResponse>) =>
        this.#enroll(call.request, answer),
      Session: (call: ServerDuplexStream<AgentMessage, ControlMessage>) => this.#stream(call),
      Heartbeat: (call: ServerUnaryCall<HeartbeatRequest, unknown>, answer: sendUnaryData<unknown>) => {
        this.calls.Heartbeat += 1;
        this.#answer(call, answer, (kept) => create(HeartbeatResponseSchema, { answer: kept }));
      },
      Report: (call: ServerUnaryCall<ReportRequest, unknown>, answer: sendUnaryData<unknown>) => {
        this.calls.Report += 1;
        this.#answer(call, answer, (kept) => create(ReportResponseSchema, { answer: kept }));
      },
    });
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.#server.bindAsync(`127.0.0.1:${this.#port}`, credentials, (error, port) => {
      if (error === null) resolve(port);
      else reject(error);
    });
    this.#port = await promise;
  }

  /** Ends as if it were killed; what it kept of sessions is gone. */
  kill(): void {
    this.#exchanges.clear();
    this.#streams.clear();
    this.#server.forceShutdown();
  }

  /** Ends every stream with a hint of when to come back. */
  drain(reconnectAfterMs: number): void {
    const metadata = new Metadata();
    metadata.set("orrery-reconnect-after-ms", String(reconnectAfterMs));
    for (const call of this.#streams) call.emit("error", { code: status.UNAVAILABLE, details: "draining", metadata });
  }

  #enroll(request: EnrollRequest, answer: sendUnaryData<EnrollResponse>): void {
    const result = this.isRefusing ? null : this.#peer.enrol(request);
    if (result === null) answer({ code: status.UNAUTHENTICATED, details: "agent_unauthenticated" });
    else if (result === "nothing") answer({ code: status.UNAVAILABLE, details: "lost" });
    else answer(null, result);
  }

  #stream(call: ServerDuplexStream<AgentMessage, ControlMessage>): void {
    this.metadata.push(call.metadata);
    if (this.isRefusing) {
      call.emit("error", { code: status.UNAUTHENTICATED, details: "agent_unauthenticated" });
      return;
    }
    this.#streams.add(call);
    const side = this.#peer.open("bridge", (message) => void call.write(create(ControlMessageSchema, message)));
    call.on("data", (message: AgentMessage) => this.#hear(side, message, (pong) => call.write(pong)));
    call.on("end", () => call.end());
    call.on("cancelled", () => this.#streams.delete(call));
  }

  #hear(side: ControlSide, message: AgentMessage, answer: (pong: ControlMessage) => void): void {
    const pong = create(ControlMessageSchema, { body: { case: "pong", value: {} } });
    if (message.body.case === "ping") this.#peer.hearPing(() => answer(pong));
    else this.#peer.hear(side, message);
  }

  #answer(
    { request: { exchange }, metadata }: ServerUnaryCall<HeartbeatRequest | ReportRequest, unknown>,
    answer: sendUnaryData<unknown>,
    wrap: (answer: ExchangeAnswer) => unknown,
  ): void {
    this.metadata.push(metadata);
    const [id, kept] = exchange?.exchangeId === "" ? this.#open() : [exchange?.exchangeId ?? "", undefined];
    const session = kept ?? this.#exchanges.get(id);
    if (session === undefined || exchange === undefined || this.isRefusing) {
      answer({ code: status.FAILED_PRECONDITION, details: "exchange_lost" });
      return;
    }
    this.#take(session, exchange.sequence, exchange.messages);
    session.messages.splice(0, Number(exchange.received - session.taken));
    session.taken = exchange.received;
    const reply = () => {
      clearTimeout(timer);
      session.wake = () => undefined;
      if (this.lostAnswers > 0) {
        this.lostAnswers -= 1;
        answer({ code: status.UNAVAILABLE, details: "the answer is lost" });
        return;
      }
      answer(null, wrap(create(ExchangeAnswerSchema, { exchangeId: id, messages: [...session.messages] })));
    };
    session.wake = reply;
    const timer = setTimeout(reply, session.messages.length > 0 ? 0 : exchange.waitMs);
  }

  #open(): [string, Kept] {
    const id = `exchange-${this.#exchanges.size + 1}`;
    const messages: ControlMessage[] = [];
    const side = this.#peer.open("bridge", (message) => {
      messages.push(create(ControlMessageSchema, message));
      kept.wake();
    });
    const kept: Kept = { side, seen: 0n, taken: 0n, messages, wake: () => undefined };
    this.#exchanges.set(id, kept);
    return [id, kept];
  }

  #take(session: Kept, sequence: bigint, messages: readonly AgentMessage[]): void {
    if (sequence <= session.seen) return;
    session.seen = sequence;
    for (const message of messages) this.#hear(session.side, message, (pong) => session.messages.push(pong));
  }
}
