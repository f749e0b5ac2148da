import type { IncomingMessage } from "node:http";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { type RawData, WebSocket } from "ws";
import { z } from "zod";
import { DEFAULTS } from "../../domain/defaults.ts";
import { isErrorCode } from "../../domain/errors.ts";
import {
  type AgentMessage,
  AgentMessageSchema,
  type ControlMessage,
  ControlMessageSchema,
  PongSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { Caller } from "./caller.ts";
import type { BridgeMetrics } from "./metrics.ts";
import { Refusal, refusalOf } from "./refusal.ts";

export interface EdgeHandlers {
  onOpen(): void;
  onMessage(message: ControlMessage): void;
  /** What was sent has left: more may follow. */
  onDrain(): void;
  /** The connection is over; a Refusal says why there was none. Called once. */
  onEnd(refusal: Refusal | null): void;
}

const REFUSAL_BYTES = 16 * 1024;
const refusalSchema = z.object({ code: z.string() });
const PONG = create(ControlMessageSchema, { body: { case: "pong", value: create(PongSchema) } });

/** One agent's WebSocket to its node's object. A Ping is the text `ping`, which the edge answers without waking it. */
export class EdgeConnection {
  readonly #socket: WebSocket;
  readonly #handlers: EdgeHandlers;
  readonly #metrics: BridgeMetrics;
  #isEnded = false;

  constructor(edgeUrl: string, { nodeId, headers }: Caller, handlers: EdgeHandlers, metrics: BridgeMetrics) {
    this.#handlers = handlers;
    this.#metrics = metrics;
    const stop = metrics.edgeConnect.startTimer();
    this.#socket = new WebSocket(`${edgeUrl.replace(/^http/, "ws")}/api/v1/agents/${nodeId}/session`, {
      headers: { ...headers },
      handshakeTimeout: DEFAULTS.bridge.openMs,
      maxPayload: DEFAULTS.agent.maxFrameBytes,
      perMessageDeflate: false,
    });
    this.#socket.on("open", () => {
      stop();
      handlers.onOpen();
    });
    this.#socket.on("message", (data, isBinary) => this.#receive(data, isBinary));
    this.#socket.on("unexpected-response", (_request, response) => void this.#refused(response));
    this.#socket.on("error", () => this.#end(unreachable()));
    this.#socket.on("close", () => this.#end(null));
  }

  /** Answers whether more may be sent before `onDrain`. */
  send(message: AgentMessage): boolean {
    if (this.#socket.readyState !== WebSocket.OPEN) return true;
    const isPing = message.body.case === "ping";
    this.#metrics.frames.inc({ direction: "up", kind: isPing ? "ping" : "frame" });
    this.#socket.send(isPing ? "ping" : toBinary(AgentMessageSchema, message), { binary: !isPing }, () => {
      if (this.#socket.bufferedAmount <= DEFAULTS.bridge.bufferBytes) this.#handlers.onDrain();
    });
    return this.#socket.bufferedAmount <= DEFAULTS.bridge.bufferBytes;
  }

  /** Bytes that the edge has not taken yet. */
  get bufferedBytes(): number {
    return this.#socket.bufferedAmount;
  }

  pause(): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.pause();
  }

  resume(): void {
    if (this.#socket.isPaused) this.#socket.resume();
  }

  /** Ends the connection without waiting for the edge; nothing is told any more. */
  close(): void {
    this.#isEnded = true;
    if (this.#socket.readyState === WebSocket.OPEN) {
      this.#socket.close(1000);
      // A closing handshake that the edge does not finish must not hold the socket.
      setTimeout(() => this.#socket.terminate(), CLOSE_MS).unref();
    } else this.#socket.terminate();
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (this.#isEnded) return;
    this.#metrics.frames.inc({ direction: "down", kind: isBinary ? "frame" : "pong" });
    if (!isBinary) {
      this.#handlers.onMessage(PONG);
      return;
    }
    try {
      this.#handlers.onMessage(fromBinary(ControlMessageSchema, toBytes(data)));
    } catch {
      this.#end(new Refusal(status.UNAVAILABLE, "malformed_frame", "The edge sent what is no frame."));
    }
  }

  async #refused(response: IncomingMessage): Promise<void> {
    const reason = await reasonOf(response);
    this.#end(reason === null ? unreachable() : refusalOf(response.statusCode ?? 502, reason));
  }

  #end(refusal: Refusal | null): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#socket.terminate();
    this.#handlers.onEnd(refusal);
  }
}

const CLOSE_MS = 2_000;

/** The code of the edge's problem document, or null where something else has answered. */
async function reasonOf(response: IncomingMessage) {
  try {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of response) {
      if (!Buffer.isBuffer(chunk) || bytes > REFUSAL_BYTES) break;
      bytes += chunk.length;
      chunks.push(chunk);
    }
    const { code } = refusalSchema.parse(JSON.parse(Buffer.concat(chunks).toString("utf8")));
    return isErrorCode(code) ? code : null;
  } catch {
    return null;
  }
}

function unreachable(): Refusal {
  return new Refusal(status.UNAVAILABLE, "edge_unreachable");
}

function toBytes(data: RawData): Uint8Array {
  if (Array.isArray(data)) return new Uint8Array(Buffer.concat(data));
  return Buffer.isBuffer(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
}
