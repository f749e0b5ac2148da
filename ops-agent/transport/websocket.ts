import { setTimeout as delay } from "node:timers/promises";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { type RawData, WebSocket } from "ws";
import { DEFAULTS } from "../../domain/defaults.ts";
import { isErrorCode } from "../../domain/errors.ts";
import {
  type EnrollRequest,
  EnrollRequestSchema,
  type EnrollResponse,
  EnrollResponseSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { Logger } from "../log.ts";
import type { AgentMessageInit } from "../session/messages.ts";
import { CLOSE_MS, lost, OPEN_MS, type Ticket, type Transport, type TransportHandlers, type Way } from "./way.ts";
import { agentFrame, parseFrame, pong } from "./websocket-frames.ts";

/** An answer to an enrolment, or to a connection that was refused, is never longer. */
const ANSWER_BYTES = 64 * 1024;

/** Straight to the edge: enrolment by HTTP, sessions by WebSocket. */
export class DirectWay implements Way {
  readonly name = "direct";
  readonly #controlUrl: string;
  readonly #log: Logger;

  constructor(controlUrl: string, log: Logger) {
    this.#controlUrl = controlUrl;
    this.#log = log;
  }

  async enrol(request: EnrollRequest, signal: AbortSignal): Promise<EnrollResponse> {
    const response = await fetch(agentUrl(this.#controlUrl, request.nodeId, "enroll"), {
      method: "POST",
      headers: { "content-type": "application/protobuf" },
      body: new Uint8Array(toBinary(EnrollRequestSchema, request)),
      redirect: "error",
      signal: AbortSignal.any([signal, AbortSignal.timeout(OPEN_MS)]),
    });
    const answer = await readLimited(response.body ?? []);
    if (!response.ok) throw new Error(refusedWith(response.status, answer));
    return fromBinary(EnrollResponseSchema, answer);
  }

  open(ticket: Ticket, handlers: TransportHandlers): Transport {
    return new WebSocketTransport(sessionUrl(this.#controlUrl, ticket.nodeId), ticket, handlers, this.#log);
  }

  async isReachable(): Promise<boolean> {
    const asked = fetch(`${this.#controlUrl}/healthz`, { signal: AbortSignal.timeout(OPEN_MS) });
    return asked.then(
      () => true,
      () => false,
    );
  }
}

class WebSocketTransport implements Transport {
  readonly #handlers: TransportHandlers;
  readonly #log: Logger;
  readonly #socket: WebSocket;
  /** What was sent before the socket was open. */
  readonly #waiting: (Uint8Array | string)[] = [];
  #isEnded = false;

  constructor(url: string, ticket: Ticket, handlers: TransportHandlers, log: Logger) {
    this.#handlers = handlers;
    this.#log = log;
    this.#socket = new WebSocket(url, {
      headers: {
        authorization: `Ticket ${ticket.ticket}`,
        "orrery-generation": String(ticket.generation),
        "orrery-installation": ticket.installationId,
        "orrery-epoch": String(ticket.sessionEpoch),
        "orrery-signature": ticket.signature,
      },
      handshakeTimeout: OPEN_MS,
      maxPayload: DEFAULTS.agent.maxFrameBytes,
      perMessageDeflate: false,
    });
    this.#socket.on("open", () => {
      for (const frame of this.#waiting.splice(0)) this.#socket.send(frame);
    });
    this.#socket.on("message", (data, isBinary) => this.#receive(data, isBinary));
    this.#socket.on("error", (error) => this.#end(error.message));
    this.#socket.on("close", (code) => this.#end(`closed with code ${code}`));
    this.#socket.on("unexpected-response", (_request, response) => {
      readLimited(response).then(
        (answer) => this.#end(refusedWith(response.statusCode ?? 0, answer)),
        () => this.#end(`refused with HTTP status ${response.statusCode}`),
      );
    });
  }

  send(message: AgentMessageInit): void {
    if (this.#isEnded) return;
    const frame = agentFrame(message);
    if (this.#socket.readyState === WebSocket.CONNECTING) this.#waiting.push(frame);
    else this.#socket.send(frame);
    if (this.#socket.bufferedAmount > DEFAULTS.bridge.bufferBytes) this.#end("the edge takes nothing");
  }

  async close(): Promise<void> {
    this.#isEnded = true;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#socket.on("close", () => resolve());
    this.#socket.close(1000);
    await Promise.race([promise, delay(CLOSE_MS)]);
    this.#socket.terminate();
  }

  abort(): void {
    this.#isEnded = true;
    this.#socket.terminate();
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (this.#isEnded) return;
    const bytes = toBytes(data);
    if (!isBinary) {
      if (Buffer.from(bytes).toString() === "pong") this.#handlers.onMessage(pong());
      return;
    }
    const frame = parseFrame(bytes);
    if (frame.ok) this.#handlers.onMessage(frame.message);
    else this.#log.warn({ reason: frame.reason }, "ignored a frame that cannot be read");
  }

  #end(reason: string): void {
    if (this.#isEnded) return;
    this.abort();
    this.#handlers.onEnd(lost(reason));
  }
}

/** The session's address at a control plane. */
export function sessionUrl(controlUrl: string, nodeId: string): string {
  const url = agentUrl(controlUrl, nodeId, "session");
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

function agentUrl(controlUrl: string, nodeId: string, what: "enroll" | "session"): URL {
  return new URL(`${controlUrl.replace(/\/+$/, "")}/api/v1/agents/${encodeURIComponent(nodeId)}/${what}`);
}

/** What an HTTP answer refuses with: its status and, where it is a problem document of ours, the code. */
function refusedWith(status: number, answer: Uint8Array): string {
  const code = problemCode(Buffer.from(answer).toString());
  return code === null ? `refused with HTTP status ${status}` : `refused with HTTP status ${status} (${code})`;
}

function problemCode(text: string): string | null {
  try {
    const problem: unknown = JSON.parse(text);
    if (typeof problem !== "object" || problem === null || !("code" in problem)) return null;
    return isErrorCode(problem.code) ? problem.code : null;
  } catch {
    return null;
  }
}

async function readLimited(chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<Uint8Array> {
  const read: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    size += chunk.length;
    if (size > ANSWER_BYTES) throw new Error("the answer is too long");
    read.push(chunk);
  }
  return new Uint8Array(Buffer.concat(read));
}

function toBytes(data: RawData): Uint8Array {
  if (Array.isArray(data)) return Buffer.concat(data);
  return new Uint8Array(data);
}
