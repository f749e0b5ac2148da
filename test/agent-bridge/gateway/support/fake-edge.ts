import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { vi } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import {
  type AgentMessage,
  AgentMessageSchema,
  type ControlMessage,
  ControlMessageSchema,
} from "../../../../proto/gen/orrery/agent/v1/gateway_pb.js";

interface Answer {
  readonly status: number;
  readonly body: Uint8Array | string;
}

export interface Enrolment {
  readonly path: string;
  readonly contentType: string | undefined;
  readonly body: Uint8Array;
}

/** The edge as a bridge sees it: it takes sessions and enrolments, or does not, and says what the test wants. */
export class FakeEdge {
  readonly sessions: EdgeSession[] = [];
  readonly enrolments: Enrolment[] = [];
  /** How sessions are refused; null takes them. */
  refusal: Answer | null = null;
  /** While false, connections are left without any answer. */
  isAnswering = true;
  /** What enrolments are answered. */
  enrolment: Answer = { status: 200, body: "" };
  /** Echoes every binary frame as a sealed control message's body. */
  isEchoing = false;
  readonly #server = createServer((request, response) => void this.#answer(request, response));
  readonly #sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
  readonly #connections = new Set<Socket>();

  /** @param port of an edge that was there before */
  static async start(port = 0): Promise<FakeEdge> {
    const edge = new FakeEdge();
    edge.#server.listen(port, "127.0.0.1");
    await once(edge.#server, "listening");
    return edge;
  }

  constructor() {
    this.#server.on("connection", (socket) => {
      this.#connections.add(socket);
      socket.once("close", () => this.#connections.delete(socket));
    });
    this.#server.on("upgrade", (request, socket, head) => {
      if (!this.isAnswering) return;
      if (this.refusal === null) {
        this.#sockets.handleUpgrade(request, socket, head, (webSocket) =>
          this.sessions.push(new EdgeSession(request, webSocket, this)),
        );
        return;
      }
      const { status, body } = this.refusal;
      socket.end(`HTTP/1.1 ${status} Refused\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    });
  }

  get port(): number {
    const address = this.#server.address();
    if (typeof address !== "object" || address === null) throw new Error("The edge does not listen.");
    return address.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The session of that index, as soon as there is one. */
  session(index = 0): Promise<EdgeSession> {
    return vi.waitFor(() => {
      const session = this.sessions[index];
      if (session === undefined) throw new Error(`There are ${this.sessions.length} sessions at the edge.`);
      return session;
    }, WAIT);
  }

  /** Ends as if it were killed. */
  async stop(): Promise<void> {
    for (const socket of this.#connections) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server.listening) await this.stop();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!this.isAnswering) return;
    if (request.url === "/healthz") return void response.writeHead(200).end("ok");
    const body = new Uint8Array(await buffer(request));
    this.enrolments.push({ path: request.url ?? "", contentType: request.headers["content-type"], body });
    response.writeHead(this.enrolment.status).end(this.enrolment.body);
  }
}

export const WAIT = { timeout: 10_000, interval: 5 } as const;

/** One session at the edge, with every word that came. */
export class EdgeSession {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly messages: AgentMessage[] = [];
  readonly frames: Uint8Array[] = [];
  readonly texts: string[] = [];
  /** Settles with the closing code when the connection is over. */
  readonly ended: Promise<number>;
  readonly #socket: WebSocket;

  constructor(request: IncomingMessage, socket: WebSocket, edge: FakeEdge) {
    this.path = request.url ?? "";
    this.headers = request.headers;
    this.#socket = socket;
    const { promise, resolve } = Promise.withResolvers<number>();
    this.ended = promise;
    socket.on("close", resolve);
    socket.on("error", () => undefined);
    socket.on("message", (data, isBinary) => {
      if (!Buffer.isBuffer(data)) return;
      if (!isBinary) {
        this.texts.push(data.toString());
        socket.send("pong");
        return;
      }
      const bytes = new Uint8Array(data);
      this.frames.push(bytes);
      this.messages.push(fromBinary(AgentMessageSchema, bytes));
      if (edge.isEchoing) this.send(sealed(this.messages.length, bytes));
    });
  }

  send(message: ControlMessage): void {
    this.sendRaw(toBinary(ControlMessageSchema, message));
  }

  sendRaw(data: Uint8Array | string): void {
    this.#socket.send(data);
  }

  /** Bytes that were sent and the bridge has not read. */
  get unread(): number {
    return this.#socket.bufferedAmount;
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  close(): void {
    this.#socket.close(1000);
  }

  /** Cuts the connection without a closing handshake. */
  cut(): void {
    this.#socket.terminate();
  }
}

export function sealed(counter: number, body: Uint8Array): ControlMessage {
  return create(ControlMessageSchema, {
    body: { case: "sealed", value: { counter: BigInt(counter), body: new Uint8Array(body) } },
  });
}

export function problem(code: string): string {
  return JSON.stringify({ type: "about:blank", title: "refused", code });
}
