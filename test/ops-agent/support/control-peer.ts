import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { type WebSocket, WebSocketServer } from "ws";
import {
  type AgentMessage,
  AgentMessageSchema,
  ControlMessageSchema,
  type EnrollRequest,
  EnrollRequestSchema,
  type EnrollResponse,
  EnrollResponseSchema,
} from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { TOKEN } from "./agent-process.ts";
import {
  type CommandInit,
  type ControlBodyInit,
  type ControlMessageInit,
  ControlSide,
  ControlState,
  type Heard,
} from "./control-side.ts";

type Values = { [H in Heard as H["case"]]: H["value"] };

interface Waiter {
  readonly isMet: () => boolean;
  readonly resolve: () => void;
}

const REFUSAL = JSON.stringify({ code: "agent_unauthenticated" });

/** How an enrolment is answered over HTTP: with this, with 401 (null), or not at all. */
export type EnrolmentAnswer = EnrollResponse | null | "nothing";

/** A control plane that follows the protocol from the other side: it enrols, welcomes, answers pings, and keeps every word. */
export class ControlPeer {
  readonly state = new ControlState(TOKEN);
  readonly headers: Record<string, string | string[] | undefined>[] = [];
  pings = 0;
  connections = 0;
  enrolments = 0;
  /** While true, pings get no answer, as when a middle box has lost the connection. */
  isSilent = false;
  /** While true, connections are refused at the door. */
  isClosed = false;
  /** What becomes of a right answer to an enrolment. */
  onEnrolment: (answer: EnrollResponse | null) => EnrolmentAnswer = (answer) => answer;
  /** What becomes of a frame to the agent. */
  onFrame: (message: ControlMessageInit, side: ControlSide) => readonly ControlMessageInit[] = (message) => [message];
  readonly #server = createServer((request, response) => void this.#answer(request, response));
  readonly #sockets = new WebSocketServer({ noServer: true });
  readonly #waiters = new Set<Waiter>();
  /** The ways that connections came by, in order. */
  readonly ways: ("direct" | "bridge")[] = [];
  #current: WebSocket | null = null;
  #side: ControlSide | null = null;

  static async start(): Promise<ControlPeer> {
    const peer = new ControlPeer();
    peer.#server.listen(0, "127.0.0.1");
    await once(peer.#server, "listening");
    return peer;
  }

  constructor() {
    this.#server.on("upgrade", (request, socket, head) => {
      this.connections += 1;
      this.headers.push({ ...request.headers, url: request.url });
      if (!this.isClosed) this.#sockets.handleUpgrade(request, socket, head, (agent) => this.#join(agent));
      else socket.end(`HTTP/1.1 401 Unauthorized\r\nContent-Length: ${REFUSAL.length}\r\n\r\n${REFUSAL}`);
      this.look();
    });
  }

  get url(): string {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? `http://127.0.0.1:${address.port}` : "";
  }

  set beatIntervalMs(value: number) {
    this.state.beatIntervalMs = value;
  }

  /** The latest connection's control side. */
  get side(): ControlSide {
    if (this.#side === null) throw new Error("There is no connection.");
    return this.#side;
  }

  send(body: ControlBodyInit["body"]): void {
    this.side.say(body);
  }

  sendCommand(command: CommandInit): void {
    this.side.command(command);
  }

  /** Sends what is no sealed frame, past all rules. */
  sendMessage(message: ControlMessageInit): void {
    this.sendRaw(toBinary(ControlMessageSchema, create(ControlMessageSchema, message)));
  }

  sendRaw(bytes: Uint8Array | string): void {
    this.#current?.send(bytes);
  }

  /** Cuts the connection without a closing handshake. */
  cut(): void {
    this.#current?.terminate();
  }

  /** The values of all that the agent said of a kind so far. */
  all<C extends keyof Values>(kind: C): Values[C][] {
    return this.state.heard.flatMap((heard) => {
      const values: Partial<Values> = { [heard.case]: heard.value };
      const value = values[kind];
      return value === undefined ? [] : [value];
    });
  }

  /** Resolves as soon as the condition holds; it is looked at after every frame, connection and enrolment. */
  async until(what: string, isMet: () => boolean, withinMs = 20_000): Promise<void> {
    if (isMet()) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter = { isMet, resolve };
    this.#waiters.add(waiter);
    const timer = setTimeout(() => reject(new Error(`Never came: ${what}. Heard: ${this.#describe()}`)), withinMs);
    await promise.finally(() => {
      clearTimeout(timer);
      this.#waiters.delete(waiter);
    });
  }

  /** Waits for a session beyond the first `known` ones. */
  async session(known = 0): Promise<void> {
    await this.until("a session", () => this.all("opening").length > known);
  }

  async ended(commandId: string): Promise<string> {
    const find = () => {
      const completed = this.all("commandCompleted").filter((value) => value.commandId === commandId);
      const failed = this.all("commandFailed").filter((value) => value.commandId === commandId);
      return [...completed.map(() => "completed"), ...failed.map(({ kind, code }) => `${kind} ${code}`)];
    };
    await this.until(`end of ${commandId}`, () => find().length > 0);
    return find().at(-1) ?? "";
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets.clients) socket.terminate();
    this.#sockets.close();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  /** Looks again at what is waited for. */
  look(): void {
    for (const waiter of this.#waiters) if (waiter.isMet()) waiter.resolve();
  }

  #join(socket: WebSocket): void {
    this.#current = socket;
    const side = this.open("direct", (message) => {
      socket.send(toBinary(ControlMessageSchema, create(ControlMessageSchema, message)));
    });
    socket.on("message", (data, isBinary) => {
      if (isBinary) this.hear(side, fromBinary(AgentMessageSchema, Buffer.isBuffer(data) ? data : Buffer.alloc(0)));
      else this.hearPing(() => socket.send("pong"));
    });
  }

  /** The control side of a new connection. */
  open(way: "direct" | "bridge", deliver: (message: ControlMessageInit) => void): ControlSide {
    const side: ControlSide = new ControlSide(this.state, (message) => {
      for (const passed of this.onFrame(message, side)) deliver(passed);
    });
    this.ways.push(way);
    this.#side = side;
    return side;
  }

  hear(side: ControlSide, message: AgentMessage): void {
    side.receive(message);
    this.look();
  }

  hearPing(pong: () => void): void {
    this.pings += 1;
    if (!this.isSilent) pong();
    this.look();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    if (!/^\/api\/v1\/agents\/[^/]+\/enroll$/.test(request.url ?? "")) {
      response.writeHead(404).end();
      return;
    }
    const answer = this.enrol(fromBinary(EnrollRequestSchema, body));
    if (answer === "nothing") response.destroy();
    else if (answer === null) response.writeHead(401).end(REFUSAL);
    else response.writeHead(200).end(toBinary(EnrollResponseSchema, answer));
  }

  enrol(request: EnrollRequest): EnrolmentAnswer {
    this.enrolments += 1;
    const answer = this.onEnrolment(this.state.enrol(request));
    this.look();
    return answer;
  }

  #describe(): string {
    return [...this.state.heard.map((heard) => heard.case), ...this.state.offences].join(" ");
  }
}
