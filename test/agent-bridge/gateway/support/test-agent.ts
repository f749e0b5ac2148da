import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  ChannelCredentials,
  Client,
  type ClientDuplexStream,
  Metadata,
  type ServiceError,
  type StatusObject,
  status,
} from "@grpc/grpc-js";
import { onTestFinished } from "vitest";
import {
  type AgentMessage,
  AgentMessageSchema,
  type ControlMessage,
  EnrollRequestSchema,
  type EnrollResponse,
  type ExchangeAnswer,
  ExchangeSchema,
  HeartbeatRequestSchema,
  ReportRequestSchema,
} from "../../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { agentGatewayService } from "../../../../proto/grpc.ts";
import { Condition } from "./condition.ts";

export type AgentInit = MessageInitShape<typeof AgentMessageSchema>;
export type ExchangeInit = MessageInitShape<typeof ExchangeSchema>;

export const NODE_ID = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
export const TICKET = "ab".repeat(32);

/** What a call shows of who calls. */
export function ticketMetadata(changes: Readonly<Record<string, string | undefined>> = {}): Metadata {
  const metadata = new Metadata();
  const fields: Readonly<Record<string, string | undefined>> = {
    "orrery-node": NODE_ID,
    "orrery-generation": "1",
    "orrery-installation": "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0002",
    "orrery-epoch": "7",
    "orrery-ticket": TICKET,
    ...changes,
  };
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) metadata.set(name, value);
  return metadata;
}

export function hello(bytes = new Uint8Array([1, 2, 3])): AgentInit {
  return { body: { case: "hello", value: bytes } };
}

export function sealed(body: Uint8Array, counter = 1n): AgentInit {
  return { body: { case: "sealed", value: { counter, body, mac: new Uint8Array(32) } } };
}

export const PING: AgentInit = { body: { case: "ping", value: {} } };

/** An agent's gRPC client, one connection, without an agent's judgement. It is closed when the test ends. */
export class TestAgent {
  readonly client: Client;

  constructor(bridgeUrl: string, credentials = ChannelCredentials.createInsecure()) {
    this.client = new Client(new URL(bridgeUrl).host, credentials, {
      "grpc.use_local_subchannel_pool": 1,
      "grpc.enable_retries": 0,
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 200,
      "grpc.max_receive_message_length": 2 ** 21,
      "grpc.service_config_disable_resolution": 1,
    });
    onTestFinished(() => this.client.close());
  }

  session(metadata = ticketMetadata()): TestStream {
    const { path, requestSerialize, responseDeserialize } = agentGatewayService.Session;
    return new TestStream(this.client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, metadata));
  }

  /** A session that has said its Hello and has had the edge's answer to it. */
  async established(metadata = ticketMetadata()): Promise<TestStream> {
    const stream = this.session(metadata);
    stream.send(hello());
    await stream.until("an answer to the Hello", () => stream.messages.length > 0);
    return stream;
  }

  enrol(init: MessageInitShape<typeof EnrollRequestSchema>): Promise<EnrollResponse> {
    const { Enroll } = agentGatewayService;
    return answered((settle) => {
      const request = create(EnrollRequestSchema, init);
      this.client.makeUnaryRequest(Enroll.path, Enroll.requestSerialize, Enroll.responseDeserialize, request, settle);
    });
  }

  report(init: ExchangeInit, metadata = ticketMetadata()): Promise<ExchangeAnswer> {
    return this.begin("Report", init, metadata).answer;
  }

  heartbeat(init: ExchangeInit, metadata = ticketMetadata()): Promise<ExchangeAnswer> {
    return this.begin("Heartbeat", init, metadata).answer;
  }

  /** A unary call that can be given up. */
  begin(method: "Report" | "Heartbeat", init: ExchangeInit, metadata = ticketMetadata()) {
    const exchange = create(ExchangeSchema, init);
    const { promise, resolve, reject } = Promise.withResolvers<ExchangeAnswer>();
    const settle = (error: ServiceError | null, answer: ExchangeAnswer | undefined) => {
      if (answer === undefined) reject(error ?? new Error("The answer is empty."));
      else resolve(answer);
    };
    const { Heartbeat, Report } = agentGatewayService;
    const call =
      method === "Heartbeat"
        ? this.client.makeUnaryRequest(
            Heartbeat.path,
            Heartbeat.requestSerialize,
            Heartbeat.responseDeserialize,
            create(HeartbeatRequestSchema, { exchange }),
            metadata,
            (error, response) => settle(error, response?.answer),
          )
        : this.client.makeUnaryRequest(
            Report.path,
            Report.requestSerialize,
            Report.responseDeserialize,
            create(ReportRequestSchema, { exchange }),
            metadata,
            (error, response) => settle(error, response?.answer),
          );
    return { answer: promise, cancel: () => call.cancel() };
  }
}

function answered<T>(start: (settle: (error: ServiceError | null, answer?: T) => void) => void): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  start((error, answer) => {
    if (answer === undefined) reject(error ?? new Error("The answer is empty."));
    else resolve(answer);
  });
  return promise;
}

/** One Session call: everything that came by it, and how it ended. */
export class TestStream {
  readonly messages: ControlMessage[] = [];
  readonly call: ClientDuplexStream<AgentMessage, ControlMessage>;
  readonly ended: Promise<StatusObject>;
  isEnded = false;
  readonly #changed = new Condition();

  constructor(call: ClientDuplexStream<AgentMessage, ControlMessage>) {
    this.call = call;
    const { promise, resolve } = Promise.withResolvers<StatusObject>();
    this.ended = promise;
    call.on("error", () => undefined);
    call.on("status", (end) => {
      this.isEnded = true;
      resolve(end);
      this.#changed.look();
    });
    call.on("data", (message: ControlMessage) => {
      this.messages.push(message);
      this.#changed.look();
    });
  }

  /** Answers whether more may be sent at once. */
  send(init: AgentInit): boolean {
    return this.call.write(create(AgentMessageSchema, init));
  }

  until(what: string, isMet: () => boolean): Promise<void> {
    return this.#changed.until(what, isMet);
  }

  /** Says something and waits until it comes back. */
  async echoed(text: string): Promise<void> {
    const bytes = new TextEncoder().encode(text);
    this.send(sealed(bytes));
    await this.until(`the echo of ${text}`, () => this.heard.includes(text));
  }

  /** The sealed bodies that came, as text. */
  get heard(): string[] {
    return this.messages.flatMap(({ body }) =>
      body.case === "sealed" ? [new TextDecoder().decode(body.value.body)] : [],
    );
  }
}

/** What a call ended with, as `STATUS orrery-code`. */
export function endName(end: { readonly code: number; readonly metadata: Metadata }): string {
  const code = end.metadata.get("orrery-code")[0];
  return [status[end.code], code].filter((part) => part !== undefined).join(" ");
}

/** The name of a failed call's end. */
export async function failure(answer: Promise<unknown>): Promise<string> {
  const isService = (error: unknown): error is ServiceError => error instanceof Error && "metadata" in error;
  return answer.then(
    () => "answered",
    (error: unknown) => (isService(error) ? endName(error) : String(error)),
  );
}
