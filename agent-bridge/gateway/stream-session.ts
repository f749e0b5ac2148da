import { type ServerDuplexStream, status } from "@grpc/grpc-js";
import type { AgentMessage, ControlMessage } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { EdgeConnection } from "./edge-connection.ts";
import { Refusal } from "./refusal.ts";
import type { OpenSession, SessionContext } from "./sessions.ts";

/**
 * A session as one stream: what comes from either side goes to the other, and a side that is slow slows the other.
 * Nothing is read from the agent before the edge has taken the connection, so nothing is held for it meanwhile.
 */
export class StreamSession implements OpenSession {
  readonly mode = "stream";
  readonly #call: ServerDuplexStream<AgentMessage, ControlMessage>;
  readonly #context: SessionContext;
  readonly #edge: EdgeConnection;
  readonly #firstMessage: NodeJS.Timeout;
  /** Bytes that the agent has not taken yet. */
  #pendingBytes = 0;
  #isEnded = false;

  constructor(call: ServerDuplexStream<AgentMessage, ControlMessage>, context: SessionContext) {
    this.#call = call;
    this.#context = context;
    const silent = new Refusal(status.DEADLINE_EXCEEDED, "malformed_frame", "The session did not begin with a Hello.");
    this.#firstMessage = setTimeout(() => this.end(silent), 2 * context.limits.openMs);
    this.#edge = new EdgeConnection(context, {
      onOpen: () => this.#listen(),
      onMessage: (message, bytes) => this.#toAgent(message, bytes),
      onDrain: () => this.#call.resume(),
      onEnd: (refusal) => this.end(refusal),
    });
    call.on("cancelled", () => this.#finish());
    call.on("error", () => this.#finish());
    call.on("drain", () => this.#resumeEdge());
  }

  get bufferedBytes(): number {
    return this.#edge.bufferedBytes + this.#pendingBytes;
  }

  get peer(): string | null {
    return this.#edge.isOpen ? this.#context.caller.peer : null;
  }

  end(refusal: Refusal): void {
    if (this.#isEnded) return;
    this.#finish();
    this.#context.refused(refusal);
    // What was written before it still goes out first.
    this.#call.emit("error", refusal);
  }

  #listen(): void {
    this.#call.on("data", (message: AgentMessage) => {
      clearTimeout(this.#firstMessage);
      if (!this.#isEnded && !this.#edge.send(message)) this.#call.pause();
    });
    this.#call.on("end", () => {
      this.#finish();
      this.#call.end();
    });
  }

  #toAgent(message: ControlMessage, bytes: number): void {
    if (this.#isEnded) return;
    this.#pendingBytes += bytes;
    const mayGoOn = this.#call.write(message, () => {
      this.#pendingBytes -= bytes;
      this.#resumeEdge();
    });
    // gRPC counts messages, which may be large.
    if (!mayGoOn || this.#pendingBytes > this.#context.limits.bufferBytes) this.#edge.pause();
  }

  #resumeEdge(): void {
    if (!this.#call.writableNeedDrain && this.#pendingBytes <= this.#context.limits.bufferBytes) this.#edge.resume();
  }

  #finish(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#firstMessage);
    this.#edge.close();
    this.#context.closed(this);
  }
}
