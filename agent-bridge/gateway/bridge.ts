import { create } from "@bufbuild/protobuf";
import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerOptions,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { DEFAULTS } from "../../domain/defaults.ts";
import {
  type AgentMessage,
  type ControlMessage,
  type EnrollRequest,
  type EnrollResponse,
  type ExchangeAnswer,
  type HeartbeatRequest,
  type HeartbeatResponse,
  HeartbeatResponseSchema,
  type ReportRequest,
  type ReportResponse,
  ReportResponseSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { agentGatewayService } from "../../proto/grpc.ts";
import { callerOf } from "./caller.ts";
import { refuseCompression } from "./compression.ts";
import { Enrolments } from "./enrolment.ts";
import { Exchanges } from "./exchanges.ts";
import { FirstMessages } from "./first-message.ts";
import { FrontDoor } from "./front-door.ts";
import type { Logger } from "./log.ts";
import { type BridgeMetrics, createMetrics } from "./metrics.ts";
import { Refusal } from "./refusal.ts";
import { Sessions } from "./sessions.ts";
import type { BridgeLimits, BridgeSettings, BridgeTls } from "./settings.ts";
import { StreamSession } from "./stream-session.ts";

/**
 * The gRPC bridge: agents on one side, the edge on the other. It translates and holds no truth, no secret and no
 * credential; when it is killed, agents come back to another one or go direct.
 */
export class Bridge {
  readonly metrics: BridgeMetrics;
  readonly sessions: Sessions;
  readonly #settings: BridgeSettings;
  readonly #log: Logger;
  readonly #grpc: Server;
  readonly #door: FrontDoor;
  readonly #exchanges: Exchanges;
  readonly #enrolments: Enrolments;
  readonly #takeCompression: () => void;

  constructor(settings: BridgeSettings, log: Logger) {
    this.#settings = settings;
    this.#log = log;
    this.metrics = createMetrics(() => this.sessions.bufferedBytes());
    const { edgeUrl, sessionsMax, connectionsMax, listen, limits } = settings;
    this.sessions = new Sessions({ edgeUrl, limits, sessionsMax, metrics: this.metrics, log });
    this.#exchanges = new Exchanges(this.sessions);
    this.#enrolments = new Enrolments(edgeUrl, limits, this.sessions);
    this.#takeCompression = refuseCompression();
    const { interceptor } = new FirstMessages(limits, this.metrics);
    this.#grpc = new Server({ ...optionsOf(limits), interceptors: [interceptor] });
    this.#grpc.addService(agentGatewayService, this.#handlers());
    this.#door = new FrontDoor({
      grpc: this.#grpc,
      credentials: credentialsOf(settings.tls),
      listen,
      connectionsMax,
      limits,
      metrics: this.metrics,
      peers: () => this.sessions.peers(),
    });
  }

  /** Answers the port that agents connect to. */
  open(): Promise<number> {
    return this.#door.open();
  }

  /** Sends every agent away with a hint of when to come back, then ends what is left. */
  async drain(random: () => number): Promise<void> {
    this.#log.info({ sessions: this.sessions.size }, "draining");
    const isEmpty = this.#door.close();
    this.sessions.drain(() => random() * this.#settings.drainMs);
    // It asks peers to go. That it is done it says too early, while the last words are still on their way.
    this.#grpc.tryShutdown(() => undefined);
    const { promise, resolve } = Promise.withResolvers<void>();
    const patience = setTimeout(resolve, DRAIN_PATIENCE_MS);
    await Promise.race([isEmpty, promise]);
    clearTimeout(patience);
    this.kill();
  }

  kill(): void {
    this.#grpc.forceShutdown();
    this.#door.clear();
    this.#takeCompression();
  }

  #handlers() {
    return {
      Enroll: (call: ServerUnaryCall<EnrollRequest, EnrollResponse>, answer: sendUnaryData<EnrollResponse>) =>
        this.#answer(answer, () => this.#enrolments.pass(call.request)),
      Session: (call: ServerDuplexStream<AgentMessage, ControlMessage>) => this.#stream(call),
      Heartbeat: (
        call: ServerUnaryCall<HeartbeatRequest, HeartbeatResponse>,
        answer: sendUnaryData<HeartbeatResponse>,
      ) =>
        this.#answer(answer, async () => {
          const exchange = await this.#exchange(call);
          return create(HeartbeatResponseSchema, { answer: exchange });
        }),
      Report: (call: ServerUnaryCall<ReportRequest, ReportResponse>, answer: sendUnaryData<ReportResponse>) =>
        this.#answer(answer, async () => {
          const exchange = await this.#exchange(call);
          return create(ReportResponseSchema, { answer: exchange });
        }),
    };
  }

  #exchange(call: ServerUnaryCall<HeartbeatRequest | ReportRequest, unknown>): Promise<ExchangeAnswer> {
    return this.#exchanges.call(callerOf(call), call.request.exchange, hangUpOf(call));
  }

  #stream(call: ServerDuplexStream<AgentMessage, ControlMessage>): void {
    try {
      this.sessions.begin(callerOf(call), (context) => new StreamSession(call, context));
    } catch (thrown) {
      call.emit("error", this.#counted(thrown));
    }
  }

  #answer<T>(answer: sendUnaryData<T>, work: () => Promise<T>): void {
    void work().then(
      (response) => answer(null, response),
      (thrown: unknown) => answer(this.#counted(thrown)),
    );
  }

  /** What is not a refusal of ours is a fault of ours: it is logged and not told. */
  #counted(thrown: unknown): Refusal {
    const refusal = thrown instanceof Refusal ? thrown : new Refusal(status.INTERNAL, "internal");
    if (refusal !== thrown) this.#log.error({ err: thrown }, "a call failed unexpectedly");
    this.metrics.refusals.inc({ code: refusal.reason });
    return refusal;
  }
}

const DRAIN_PATIENCE_MS = 3_000;

function optionsOf(limits: BridgeLimits): ServerOptions {
  return {
    "grpc.max_receive_message_length": DEFAULTS.agent.maxFrameBytes + 1_024,
    "grpc.max_concurrent_streams": limits.streamsPerConnection,
    // A connection whose peer is gone must not stay.
    "grpc.keepalive_time_ms": limits.keepaliveMs,
    "grpc.keepalive_timeout_ms": limits.openMs,
    // Megabytes that one connection may hold before it gets no further stream; gRPC's own default is no limit.
    "grpc-node.max_session_memory": 32,
    // Counts every message for an introspection service that is not served here.
    "grpc.enable_channelz": 0,
  };
}

function credentialsOf(tls: BridgeTls | null): ServerCredentials {
  if (tls === null) return ServerCredentials.createInsecure();
  const pair = { cert_chain: tls.certificate, private_key: tls.key };
  return ServerCredentials.createSsl(tls.clientCa, [pair], tls.clientCa !== null);
}

/** Fires when the caller has hung up. */
function hangUpOf(call: ServerUnaryCall<unknown, unknown>): AbortSignal {
  const hangUp = new AbortController();
  call.on("cancelled", () => hangUp.abort());
  return hangUp.signal;
}
