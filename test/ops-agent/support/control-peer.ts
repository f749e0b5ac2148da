import { once } from "node:events";
import { createServer } from "node:http";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type WebSocket, WebSocketServer } from "ws";
import {
  type AgentMessage,
  AgentMessageSchema,
  ControlMessageSchema,
} from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";

type Body = AgentMessage["body"];
type Values = { [B in Body as B["case"] extends string ? B["case"] : never]: B["value"] };
type ControlInit = MessageInitShape<typeof ControlMessageSchema>;

interface Waiter {
  readonly isMet: () => boolean;
  readonly resolve: () => void;
}

/** A control plane that follows the protocol from the other side: it welcomes, answers pings, and keeps every frame. */
export class ControlPeer {
  readonly received: AgentMessage[] = [];
  readonly headers: Record<string, string | string[] | undefined>[] = [];
  pings = 0;
  connections = 0;
  /** While true, pings get no answer, as when a middle box has lost the connection. */
  isSilent = false;
  /** Long enough that a busy machine does not make a peer look dead. */
  beatIntervalMs = 2_000;
  readonly #server = createServer();
  readonly #sockets = new WebSocketServer({ server: this.#server });
  readonly #waiters = new Set<Waiter>();
  #current: WebSocket | null = null;

  static async start(): Promise<ControlPeer> {
    const peer = new ControlPeer();
    peer.#server.listen(0, "127.0.0.1");
    await once(peer.#server, "listening");
    return peer;
  }

  constructor() {
    this.#sockets.on("connection", (socket, request) => {
      this.connections += 1;
      this.headers.push({ ...request.headers, url: request.url });
      this.#current = socket;
      socket.on("message", (data, isBinary) =>
        this.#receive(socket, Buffer.isBuffer(data) ? data : Buffer.alloc(0), isBinary),
      );
    });
  }

  get url(): string {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? `http://127.0.0.1:${address.port}` : "";
  }

  send(body: ControlInit["body"]): void {
    const init: ControlInit = {};
    if (body !== undefined) init.body = body;
    this.sendRaw(toBinary(ControlMessageSchema, create(ControlMessageSchema, init)));
  }

  sendRaw(bytes: Uint8Array | string): void {
    this.#current?.send(bytes);
  }

  /** Cuts the connection without a closing handshake. */
  cut(): void {
    this.#current?.terminate();
  }

  /** The values of all frames of a kind so far. */
  all<C extends keyof Values>(kind: C): NonNullable<Values[C]>[] {
    return this.received.flatMap(({ body }) => {
      const values: Partial<Values> = body.case === undefined ? {} : { [body.case]: body.value };
      const value = values[kind];
      return value === undefined || value === null ? [] : [value];
    });
  }

  /** Resolves as soon as the condition holds; it is looked at after every frame and connection. */
  async until(what: string, isMet: () => boolean, withinMs = 20_000): Promise<void> {
    if (isMet()) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter = { isMet, resolve };
    this.#waiters.add(waiter);
    const timer = setTimeout(() => reject(new Error(`Never came: ${what}. Frames: ${this.#describe()}`)), withinMs);
    await promise.finally(() => {
      clearTimeout(timer);
      this.#waiters.delete(waiter);
    });
  }

  async ended(commandId: string): Promise<string> {
    const find = () =>
      this.received.flatMap(({ body }) => {
        if (body.case === "commandCompleted" && body.value.commandId === commandId) return ["completed"];
        if (body.case === "commandFailed" && body.value.commandId === commandId)
          return [`${body.value.kind} ${body.value.code}`];
        return [];
      });
    await this.until(`end of ${commandId}`, () => find().length > 0);
    return find().at(-1) ?? "";
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets.clients) socket.terminate();
    this.#sockets.close();
    this.#server.close();
    await once(this.#server, "close");
  }

  #receive(socket: WebSocket, data: Buffer, isBinary: boolean): void {
    if (!isBinary) {
      this.pings += 1;
      if (!this.isSilent) socket.send("pong");
    } else {
      const message = fromBinary(AgentMessageSchema, data);
      this.received.push(message);
      if (message.body.case === "hello") this.#welcome();
    }
    for (const waiter of this.#waiters) if (waiter.isMet()) waiter.resolve();
  }

  #welcome(): void {
    const value = { protocolVersion: 1, beatIntervalMs: this.beatIntervalMs, serverTimeMs: 0n };
    this.send({ case: "welcome", value });
  }

  #describe(): string {
    return this.received.map(({ body }) => body.case).join(" ");
  }
}
