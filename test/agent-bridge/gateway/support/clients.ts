import { create } from "@bufbuild/protobuf";
import {
  ChannelCredentials,
  Client,
  type ClientDuplexStream,
  type ClientOptions,
  Metadata,
  type ServiceError,
  type StatusObject,
} from "@grpc/grpc-js";
import {
  type AgentMessage,
  AgentMessageSchema,
  type ControlMessage,
  type EnrollRequest,
  type EnrollResponse,
  type ExchangeAnswer,
  ExchangeSchema,
  HeartbeatRequestSchema,
  ReportRequestSchema,
} from "../../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { agentGatewayService } from "../../../../proto/grpc.ts";

const { Enroll, Session, Heartbeat, Report } = agentGatewayService;
/** Each client has a connection of its own, and takes what the bridge may send. */
const OPTIONS: ClientOptions = { "grpc.use_local_subchannel_pool": 1, "grpc.enable_retries": 0 };

export const TICKET = "ab".repeat(32);

export type TicketFields = Readonly<Record<string, string>>;

/** What a session's metadata says, with what is special about it. */
function ticketFor(fields: TicketFields = {}): Metadata {
  const metadata = new Metadata();
  const all = {
    "orrery-node": "node-1",
    "orrery-generation": "1",
    "orrery-installation": "5f0c7f7e-0d0e-4c39-9f0e-0a4c8e1d2b3c",
    "orrery-epoch": "7",
    "orrery-ticket": TICKET,
    "orrery-signature": "cd".repeat(64),
    ...fields,
  };
  for (const [name, value] of Object.entries(all)) metadata.set(name, value);
  return metadata;
}

export function connect(url: string, credentials = ChannelCredentials.createInsecure(), options = OPTIONS): Client {
  return new Client(new URL(url).host, credentials, { ...OPTIONS, ...options });
}

export function hello(bytes: Uint8Array = new Uint8Array([1, 2, 3])): AgentMessage {
  return create(AgentMessageSchema, { body: { case: "hello", value: new Uint8Array(bytes) } });
}

export function ping(): AgentMessage {
  return create(AgentMessageSchema, { body: { case: "ping", value: {} } });
}

/** An agent's session by one stream, with every word that came. */
export class StreamAgent {
  readonly messages: ControlMessage[] = [];
  /** How the bridge ended it. */
  readonly status: Promise<StatusObject>;
  readonly call: ClientDuplexStream<AgentMessage, ControlMessage>;
  readonly #client: Client;

  constructor(client: Client, metadata: Metadata = ticketFor()) {
    this.#client = client;
    this.call = client.makeBidiStreamRequest(
      Session.path,
      Session.requestSerialize,
      Session.responseDeserialize,
      metadata,
    );
    const { promise, resolve } = Promise.withResolvers<StatusObject>();
    this.status = promise;
    this.call.on("status", resolve);
    this.call.on("error", () => undefined);
    this.call.on("data", (message: ControlMessage) => this.messages.push(message));
  }

  static open(url: string, fields?: TicketFields, credentials?: ChannelCredentials): StreamAgent {
    return new StreamAgent(connect(url, credentials), ticketFor(fields));
  }

  /** Answers whether more may be sent before the stream drains. */
  send(message: AgentMessage): boolean {
    return this.call.write(message);
  }

  /** Ends it as if the agent were killed. */
  close(): void {
    this.call.cancel();
    this.#client.close();
  }
}

export interface ExchangeCall {
  readonly sequence?: number;
  readonly messages?: readonly AgentMessage[];
  readonly received?: number;
  readonly waitMs?: number;
  readonly exchangeId?: string;
}

/** An agent's session by unary calls, one by one as the test makes them. */
export class UnaryAgent {
  exchangeId = "";
  readonly #client: Client;
  readonly #metadata: Metadata;

  constructor(url: string, fields?: TicketFields) {
    this.#client = connect(url);
    this.#metadata = ticketFor(fields);
  }

  /** @throws ServiceError */
  async report(call: ExchangeCall): Promise<ExchangeAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<ExchangeAnswer | undefined>();
    this.#client.makeUnaryRequest(
      Report.path,
      Report.requestSerialize,
      Report.responseDeserialize,
      create(ReportRequestSchema, { exchange: this.#exchange(call) }),
      this.#metadata,
      (error, response) => (error === null ? resolve(response?.answer) : reject(error)),
    );
    return this.#taken(await promise);
  }

  /** @throws ServiceError */
  async heartbeat(call: ExchangeCall): Promise<ExchangeAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<ExchangeAnswer | undefined>();
    this.#client.makeUnaryRequest(
      Heartbeat.path,
      Heartbeat.requestSerialize,
      Heartbeat.responseDeserialize,
      create(HeartbeatRequestSchema, { exchange: this.#exchange(call) }),
      this.#metadata,
      (error, response) => (error === null ? resolve(response?.answer) : reject(error)),
    );
    return this.#taken(await promise);
  }

  close(): void {
    this.#client.close();
  }

  #exchange({ sequence = 1, messages = [], received = 0, waitMs = 0, exchangeId = this.exchangeId }: ExchangeCall) {
    return create(ExchangeSchema, {
      exchangeId,
      sequence: BigInt(sequence),
      messages: [...messages],
      received: BigInt(received),
      waitMs,
    });
  }

  #taken(answer: ExchangeAnswer | undefined): ExchangeAnswer {
    if (answer === undefined) throw new Error("The answer is empty.");
    this.exchangeId = answer.exchangeId;
    return answer;
  }
}

export async function enrol(url: string, request: EnrollRequest): Promise<EnrollResponse> {
  const client = connect(url);
  const { promise, resolve, reject } = Promise.withResolvers<EnrollResponse>();
  client.makeUnaryRequest(
    Enroll.path,
    Enroll.requestSerialize,
    Enroll.responseDeserialize,
    request,
    (error, response) => {
      if (response === undefined) reject(error ?? new Error("The answer is empty."));
      else resolve(response);
    },
  );
  return promise.finally(() => client.close());
}

/** How a call failed, as `CODE orrery-code`. */
export async function failureOf(call: Promise<unknown>): Promise<ServiceError> {
  try {
    await call;
  } catch (error) {
    if (isServiceError(error)) return error;
    throw error;
  }
  throw new Error("The call succeeded.");
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && "code" in error && "metadata" in error;
}

export function codeIn({ metadata }: Pick<StatusObject, "metadata">): string | undefined {
  return metadata.get("orrery-code")[0]?.toString();
}
