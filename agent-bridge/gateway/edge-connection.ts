import type { IncomingMessage } from "node:http";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { type RawData, WebSocket } from "ws";
import { DEFAULTS } from "../../domain/defaults.ts";
import {
  type AgentMessage,
  AgentMessageSchema,
  type ControlMessage,
  ControlMessageSchema,
  PongSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { edgeUnreachable, Refusal, refusalOf } from "./refusal.ts";
import type { SessionContext } from "./sessions.ts";

export interface EdgeHandlers {
  onOpen(): void;
  /** @param bytes of the frame that it came in */
  onMessage(message: ControlMessage, bytes: number): void;
  /** After a `send` that answered false: what was sent has left, more may follow. */
  onDrain(): void;
  /** The connection is over, or there was none. Called once. */
  onEnd(refusal: Refusal): void;
}

const REFUSAL_BYTES = 16 * 1024;
const CLOSE_MS = 2_000;
/** As bytes, because ws writes those in one piece with their header. */
const PING_TEXT = Buffer.from("ping");
const PONG_TEXT = Buffer.from("pong");
const PONG = create(ControlMessageSchema, { body: { case: "pong", value: create(PongSchema) } });

/** One agent's WebSocket to its node's object. A Ping is the text `ping`, which the edge answers without waking it. */
export class EdgeConnection {
  readonly #socket: WebSocket;
  readonly #handlers: EdgeHandlers;
  readonly #context: SessionContext;
  #isFull = false;
  #isEnded = false;

  constructor(context: SessionContext, handlers: EdgeHandlers) {
    this.#context = context;
    this.#handlers = handlers;
    const stop = context.metrics.edgeConnect.startTimer();
    const { nodeId, headers } = context.caller;
    this.#socket = new WebSocket(`${context.edgeUrl.replace(/^http/, "ws")}/api/v1/agents/${nodeId}/session`, {
      headers: { ...headers },
      handshakeTimeout: context.limits.openMs,
      maxPayload: DEFAULTS.agent.maxFrameBytes,
      perMessageDeflate: false,
    });
    this.#socket.on("open", () => {
      stop();
      handlers.onOpen();
    });
    this.#socket.on("message", (data, isBinary) => this.#receive(data, isBinary));
    this.#socket.on("unexpected-response", (_request, response) => void this.#refused(response));
    this.#socket.on("error", () => this.#end(edgeUnreachable()));
    this.#socket.on("close", () => this.#end(edgeUnreachable("The edge closed.")));
  }

  /** Answers whether more may be sent before `onDrain`. */
  send(message: AgentMessage): boolean {
    if (!this.isOpen) return true;
    const isPing = message.body.case === "ping";
    this.#context.metrics.frames.up[isPing ? "ping" : "frame"] += 1;
    this.#socket.send(isPing ? PING_TEXT : toBinary(AgentMessageSchema, message), { binary: !isPing }, this.#sent);
    this.#isFull = this.#socket.bufferedAmount > this.#context.limits.bufferBytes;
    return !this.#isFull;
  }

  /** Bytes that the edge has not taken yet. */
  get bufferedBytes(): number {
    return this.#socket.bufferedAmount;
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  pause(): void {
    if (this.isOpen) this.#socket.pause();
  }

  resume(): void {
    if (this.#socket.isPaused) this.#socket.resume();
  }

  /** Ends the connection without waiting for the edge; nothing is told any more. */
  close(): void {
    this.#isEnded = true;
    if (this.isOpen) {
      this.#socket.close(1000);
      // A closing handshake that the edge does not finish must not hold the socket.
      setTimeout(() => this.#socket.terminate(), CLOSE_MS).unref();
    } else this.#socket.terminate();
  }

  readonly #sent = (): void => {
    if (!this.#isFull || this.#socket.bufferedAmount > this.#context.limits.bufferBytes) return;
    this.#isFull = false;
    this.#handlers.onDrain();
  };

  #receive(data: RawData, isBinary: boolean): void {
    if (this.#isEnded) return;
    const bytes = toBytes(data);
    const message = isBinary ? frameOf(bytes) : pongOf(bytes);
    if (message === null) {
      this.#end(new Refusal(status.UNAVAILABLE, "malformed_frame", "The edge sent what is no frame."));
      return;
    }
    this.#context.metrics.frames.down[isBinary ? "frame" : "pong"] += 1;
    this.#handlers.onMessage(message, bytes.byteLength);
  }

  async #refused(response: IncomingMessage): Promise<void> {
    this.#end(refusalOf(response.statusCode ?? 502, await bodyOf(response)));
  }

  #end(refusal: Refusal): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#socket.terminate();
    this.#handlers.onEnd(refusal);
  }
}

/** The beginning of an answer's body: a problem document is short. */
async function bodyOf(response: IncomingMessage): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response) {
      if (!Buffer.isBuffer(chunk) || bytes > REFUSAL_BYTES) break;
      bytes += chunk.length;
      chunks.push(chunk);
    }
  } catch {
    // What came before it broke off may say enough.
  }
  return Buffer.concat(chunks);
}

function frameOf(bytes: Uint8Array): ControlMessage | null {
  try {
    return fromBinary(ControlMessageSchema, bytes);
  } catch {
    return null;
  }
}

function pongOf(bytes: Uint8Array): ControlMessage | null {
  return PONG_TEXT.equals(bytes) ? PONG : null;
}

function toBytes(data: RawData): Uint8Array {
  if (Array.isArray(data)) return new Uint8Array(Buffer.concat(data));
  return Buffer.isBuffer(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
}
