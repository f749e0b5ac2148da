import { type RawData, WebSocket } from "ws";
import { DEFAULTS } from "../../domain/defaults.ts";
import type { Goodbye, Welcome } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { Logger } from "../log.ts";
import { type AgentMessageInit, agentFrame, type ControlBody, parseFrame } from "./frames.ts";

const WELCOME_MS = 10_000;
const DEAD_AFTER_BEATS = 3;

/** How a session ended. */
export type SessionEnd =
  | { readonly kind: "lost"; readonly welcomed: boolean; readonly reason: string }
  | {
      readonly kind: "goodbye";
      readonly welcomed: boolean;
      readonly code: string;
      readonly message: string;
      readonly reconnectAfterMs: number | null;
    };

export interface SessionOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly hello: () => AgentMessageInit;
  readonly runningIds: () => readonly string[];
  readonly onMessage: (body: ControlBody) => void;
  readonly onWelcome: () => void;
  readonly log: Logger;
}

/**
 * One connection to the control plane: Hello, Welcome, then beats until either side goes.
 * A peer that answers nothing over three beats is dead, whatever the socket says.
 */
export class Session {
  readonly ended: Promise<SessionEnd>;
  readonly #options: SessionOptions;
  readonly #socket: WebSocket;
  readonly #end: (end: SessionEnd) => void;
  #welcomed = false;
  /** Beats since anything was heard. Beats, not time: when it was we who slept, the answers wait in the socket. */
  #unanswered = 0;
  #timer: NodeJS.Timeout;
  #refusal: string | null = null;

  constructor(options: SessionOptions) {
    this.#options = options;
    const { promise, resolve } = Promise.withResolvers<SessionEnd>();
    this.ended = promise;
    this.#end = resolve;
    this.#socket = new WebSocket(options.url, {
      headers: { ...options.headers },
      handshakeTimeout: WELCOME_MS,
      maxPayload: DEFAULTS.agent.maxFrameBytes,
      perMessageDeflate: false,
    });
    this.#timer = setTimeout(() => this.#lose("no Welcome came in time"), 2 * WELCOME_MS);
    this.#socket.on("open", () => this.#socket.send(agentFrame(options.hello())));
    this.#socket.on("message", (data, isBinary) => this.#receive(data, isBinary));
    this.#socket.on("error", (error) => this.#lose(this.#refusal ?? error.message));
    this.#socket.on("close", (code) => this.#lose(this.#refusal ?? `closed with code ${code}`));
    this.#socket.on("unexpected-response", (_request, response) => {
      response.resume();
      this.#lose(`refused with HTTP status ${response.statusCode}`);
    });
  }

  /** Sends a frame when there is a welcomed session; what is lost is asked for again by redelivery. */
  send(message: AgentMessageInit): void {
    if (this.#welcomed && this.#socket.readyState === WebSocket.OPEN) this.#socket.send(agentFrame(message));
  }

  close(): void {
    this.#socket.close(1000);
    this.#finish({ kind: "lost", welcomed: this.#welcomed, reason: "the agent stops" });
  }

  #receive(data: RawData, isBinary: boolean): void {
    this.#unanswered = 0;
    if (!isBinary) return;
    const frame = parseFrame(toBytes(data));
    if (!frame.ok) {
      this.#options.log.warn({ reason: frame.reason }, "ignored a frame that cannot be read");
      return;
    }
    if (frame.body.case === "welcome") this.#welcome(frame.body.value);
    else if (frame.body.case === "goodbye") this.#goodbye(frame.body.value);
    else this.#options.onMessage(frame.body);
  }

  #goodbye({ code, message, reconnectAfterMs }: Goodbye): void {
    this.#finish({
      kind: "goodbye",
      welcomed: this.#welcomed,
      code,
      message,
      reconnectAfterMs: reconnectAfterMs ?? null,
    });
    this.#socket.close(1000);
  }

  #welcome(welcome: Welcome): void {
    if (this.#welcomed) return;
    this.#welcomed = true;
    clearTimeout(this.#timer);
    const beatMs = welcome.beatIntervalMs > 0 ? welcome.beatIntervalMs : DEFAULTS.heartbeat.beatMs;
    this.#timer = setInterval(() => this.#beat(), beatMs);
    this.#options.onWelcome();
    this.#beat();
  }

  /** A `ping` goes along with a full beat: it is the only frame that the peer answers without waking the node's object. */
  #beat(): void {
    if (this.#unanswered >= DEAD_AFTER_BEATS) {
      this.#lose(`nothing heard for ${DEAD_AFTER_BEATS} beats`);
      return;
    }
    this.#unanswered += 1;
    const runningCommandIds = [...this.#options.runningIds()];
    if (runningCommandIds.length > 0) this.send({ body: { case: "beat", value: { runningCommandIds } } });
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send("ping");
  }

  #lose(reason: string): void {
    this.#refusal ??= reason;
    this.#finish({ kind: "lost", welcomed: this.#welcomed, reason });
    this.#socket.terminate();
  }

  #finish(end: SessionEnd): void {
    clearTimeout(this.#timer);
    this.#end(end);
  }
}

/** The session's address at a control plane. */
export function sessionUrl(controlUrl: string, nodeId: string): string {
  const url = new URL(`${controlUrl.replace(/\/+$/, "")}/api/v1/agents/${encodeURIComponent(nodeId)}/session`);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

function toBytes(data: RawData): Uint8Array {
  if (Array.isArray(data)) return Buffer.concat(data);
  return data instanceof ArrayBuffer ? new Uint8Array(data) : data;
}
