import { type ServerDuplexStream, status } from "@grpc/grpc-js";
import { DEFAULTS } from "../../domain/defaults.ts";
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
  #isEnded = false;

  constructor(call: ServerDuplexStream<AgentMessage, ControlMessage>, context: SessionContext) {
    this.#call = call;
    this.#context = context;
    const silent = new Refusal(status.DEADLINE_EXCEEDED, "malformed_frame", "The session did not begin with a Hello.");
    this.#firstMessage = setTimeout(() => this.end(silent), 2 * DEFAULTS.bridge.openMs);
    this.#edge = new EdgeConnection(
      context.edgeUrl,
      context.caller,
      {
        onOpen: () => this.#listen(),
        onMessage: (message) => this.#toAgent(message),
        onDrain: () => this.#call.resume(),
        onEnd: (refusal) =>
          this.end(refusal ?? new Refusal(status.UNAVAILABLE, "edge_unreachable", "The edge closed.")),
      },
      context.metrics,
    );
    call.on("cancelled", () => this.#finish());
    call.on("error", () => this.#finish());
    call.on("drain", () => this.#edge.resume());
  }

  get bufferedBytes(): number {
    return this.#edge.bufferedBytes;
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

  #toAgent(message: ControlMessage): void {
    if (!this.#isEnded && !this.#call.write(message)) this.#edge.pause();
  }

  #finish(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#firstMessage);
    this.#edge.close();
    this.#context.closed(this);
  }
}
