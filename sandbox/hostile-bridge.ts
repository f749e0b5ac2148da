import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { type RawData, WebSocket } from "ws";
import {
  type AgentMessage,
  AgentMessageSchema,
  type ControlMessage,
  ControlMessageSchema,
  type EnrollRequest,
  EnrollRequestSchema,
  type EnrollResponse,
  EnrollResponseSchema,
  PingSchema,
  PongSchema,
} from "../proto/gen/orrery/agent/v1/gateway_pb.js";
import { agentGatewayService } from "../proto/grpc.ts";

/** One agent's session as it passes the bridge. */
export interface TappedSession {
  readonly nodeId: string;
  /** What the agent said on opening: the headers of the WebSocket, ticket included. */
  readonly headers: Readonly<Record<string, string>>;
  /** Everything that came from either side so far, before it was tampered with. */
  readonly fromAgent: readonly AgentMessage[];
  readonly fromEdge: readonly ControlMessage[];
  toEdge(message: AgentMessage): void;
  toAgent(message: ControlMessage): void;
  /** Whether the edge still holds its end. */
  isOpen(): boolean;
}

/** What the bridge does to what passes. Each answers what goes on in its place, in order. */
export interface Tampering {
  enrolment?(request: EnrollRequest): EnrollRequest;
  /** Called in place of asking the edge; `ask` asks it. */
  enrolled?(request: EnrollRequest, ask: () => Promise<EnrollResponse>): Promise<EnrollResponse>;
  up?(message: AgentMessage, session: TappedSession): readonly AgentMessage[];
  down?(message: ControlMessage, session: TappedSession): readonly ControlMessage[];
}

/**
 * A bridge that follows the protocol and does whatever a test tells it to: what a thief of the real one could do, who
 * sees all that passes and holds no key.
 */
export class HostileBridge {
  readonly sessions: TappedSession[] = [];
  /** How the edge refused enrolments: HTTP status and body. */
  readonly refusedEnrolments: { readonly status: number; readonly body: string }[] = [];
  tampering: Tampering = {};
  /** Keeps the edge's end of a session open although its agent has gone. */
  keepsOpen = false;
  readonly #edgeUrl: string;
  readonly #server = new Server();
  #port = 0;

  static async start(edgeUrl: string): Promise<HostileBridge> {
    const bridge = new HostileBridge(edgeUrl);
    await bridge.#listen();
    return bridge;
  }

  constructor(edgeUrl: string) {
    this.#edgeUrl = edgeUrl;
    const unimplemented = (_call: unknown, answer: sendUnaryData<never>) => {
      answer({ code: status.UNIMPLEMENTED, details: "streams only" });
    };
    this.#server.addService(agentGatewayService, {
      Enroll: (call: ServerUnaryCall<EnrollRequest, EnrollResponse>, answer: sendUnaryData<EnrollResponse>) => {
        void this.#enroll(call.request).then(
          (response) => answer(null, response),
          (error: unknown) => answer({ code: status.UNAUTHENTICATED, details: String(error) }),
        );
      },
      Session: (call: ServerDuplexStream<AgentMessage, ControlMessage>) => this.#relay(call),
      Heartbeat: unimplemented,
      Report: unimplemented,
    });
  }

  get url(): string {
    return `grpc://127.0.0.1:${this.#port}`;
  }

  stop(): void {
    this.#server.forceShutdown();
  }

  async #listen(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.#server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
      if (error === null) resolve(port);
      else reject(error);
    });
    this.#port = await promise;
  }

  async #enroll(request: EnrollRequest): Promise<EnrollResponse> {
    const { tampering } = this;
    const asked = tampering.enrolment?.(request) ?? request;
    const ask = () => this.askEdge(asked);
    return tampering.enrolled === undefined ? ask() : tampering.enrolled(asked, ask);
  }

  /** What the edge answers to an enrolment, whoever made it. */
  async askEdge(request: EnrollRequest): Promise<EnrollResponse> {
    const response = await fetch(`${this.#edgeUrl}/api/v1/agents/${request.nodeId}/enroll`, {
      method: "POST",
      headers: { "content-type": "application/protobuf" },
      body: new Uint8Array(toBinary(EnrollRequestSchema, request)),
    });
    if (response.ok) return fromBinary(EnrollResponseSchema, new Uint8Array(await response.arrayBuffer()));
    const body = await response.text();
    this.refusedEnrolments.push({ status: response.status, body });
    throw new Error(`refused with ${response.status}`);
  }

  #relay(call: ServerDuplexStream<AgentMessage, ControlMessage>): void {
    const headers = headersOf(call.metadata);
    const nodeId = textOf(call.metadata, "orrery-node");
    const edge = this.dial(nodeId, headers);
    const fromAgent: AgentMessage[] = [];
    const fromEdge: ControlMessage[] = [];
    const waiting: AgentMessage[] = [];
    const session: TappedSession = {
      nodeId,
      headers,
      fromAgent,
      fromEdge,
      toEdge: (message) => {
        if (edge.readyState === WebSocket.CONNECTING) waiting.push(message);
        else sendUp(edge, message);
      },
      toAgent: (message) => void call.write(message),
      isOpen: () => edge.readyState === WebSocket.OPEN,
    };
    this.sessions.push(session);
    edge.on("open", () => {
      for (const message of waiting.splice(0)) sendUp(edge, message);
    });
    edge.on("message", (data, isBinary) => {
      const message = controlMessage(data, isBinary);
      fromEdge.push(message);
      for (const passed of this.tampering.down?.(message, session) ?? [message]) session.toAgent(passed);
    });
    edge.on("close", () => call.end());
    edge.on("error", () => call.end());
    call.on("data", (message: AgentMessage) => {
      fromAgent.push(message);
      for (const passed of this.tampering.up?.(message, session) ?? [message]) session.toEdge(passed);
    });
    for (const end of ["end", "cancelled", "error"]) {
      call.on(end, () => {
        if (!this.keepsOpen) edge.terminate();
      });
    }
  }

  /** A connection to a node's object with headers that an agent has shown. */
  dial(nodeId: string, headers: Readonly<Record<string, string>>): WebSocket {
    const url = `${this.#edgeUrl.replace(/^http/, "ws")}/api/v1/agents/${nodeId}/session`;
    return new WebSocket(url, { headers: { ...headers }, perMessageDeflate: false });
  }
}

export function sendUp(edge: WebSocket, message: AgentMessage): void {
  if (edge.readyState !== WebSocket.OPEN) return;
  edge.send(message.body.case === "ping" ? "ping" : toBinary(AgentMessageSchema, message));
}

export function controlMessage(data: RawData, isBinary: boolean): ControlMessage {
  if (!isBinary) return create(ControlMessageSchema, { body: { case: "pong", value: create(PongSchema) } });
  return fromBinary(ControlMessageSchema, Array.isArray(data) ? Buffer.concat(data) : new Uint8Array(data));
}

export const PING: AgentMessage = create(AgentMessageSchema, { body: { case: "ping", value: create(PingSchema) } });

function headersOf(metadata: Metadata): Readonly<Record<string, string>> {
  return {
    authorization: `Ticket ${textOf(metadata, "orrery-ticket")}`,
    "orrery-generation": textOf(metadata, "orrery-generation"),
    "orrery-installation": textOf(metadata, "orrery-installation"),
    "orrery-epoch": textOf(metadata, "orrery-epoch"),
    "orrery-signature": textOf(metadata, "orrery-signature"),
  };
}

function textOf(metadata: Metadata, key: string): string {
  return metadata.get(key)[0]?.toString() ?? "";
}
