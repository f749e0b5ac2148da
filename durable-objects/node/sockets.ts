import type { EpochMs } from "../../domain/node/node.ts";
import { stampedAt } from "../shared/clock.ts";
import { errorText, log } from "../shared/log.ts";
import { type Attachment, type OpenAttachment, readAttachment } from "./attachment.ts";

export interface AgentSocket<A extends Attachment = Attachment> {
  readonly socket: WebSocket;
  readonly attachment: A;
}

/** The hibernating sockets of a node's agents. */
export class NodeSockets {
  readonly #ctx: DurableObjectState;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
  }

  /** Answers `ping` without waking the object. */
  answerPings(): void {
    this.#ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  accept(socket: WebSocket, generation: number): void {
    this.#ctx.acceptWebSocket(socket, [generationTag(generation)]);
  }

  /** Sockets that can still be written to. */
  all(): readonly AgentSocket[] {
    return attached(this.#ctx.getWebSockets().filter(isOpen));
  }

  /** The same of one generation. */
  of(generation: number): readonly AgentSocket[] {
    return attached(this.#ctx.getWebSockets(generationTag(generation)).filter(isOpen));
  }

  /** The socket of the installation's present session, if it is still open. */
  session(generation: number, sessionEpoch: number): AgentSocket<OpenAttachment> | null {
    return this.#sessions(generation, sessionEpoch).find(({ socket }) => isOpen(socket)) ?? null;
  }

  /** Whether the runtime still holds the session's socket, be it closing: then its close will be told to us. */
  holdsSession(generation: number, sessionEpoch: number): boolean {
    return this.#sessions(generation, sessionEpoch).length > 0;
  }

  /** The newest beat on a socket: a frame that we saw, or a ping that the runtime answered for us. */
  lastBeatAt({ socket, attachment }: AgentSocket<OpenAttachment>): EpochMs {
    const answered = this.#ctx.getWebSocketAutoResponseTimestamp(socket);
    return answered === null ? attachment.heardAt : Math.max(attachment.heardAt, stampedAt(answered));
  }

  close(socket: WebSocket, reason: string): void {
    try {
      socket.close(CLOSED_BY_US, reason);
    } catch (thrown) {
      log("info", "socket was closed already", { reason, error: errorText(thrown) });
    }
  }

  #sessions(generation: number, sessionEpoch: number): readonly AgentSocket<OpenAttachment>[] {
    return attached(this.#ctx.getWebSockets(generationTag(generation))).flatMap(({ socket, attachment }) => {
      if (attachment.phase !== "open" || attachment.sessionEpoch !== sessionEpoch) return [];
      return [{ socket, attachment }];
    });
  }
}

/** In the range that RFC 6455 leaves to applications. */
const CLOSED_BY_US = 4000;

function generationTag(generation: number): string {
  return `generation:${generation}`;
}

function isOpen({ readyState }: WebSocket): boolean {
  return readyState === WebSocket.OPEN;
}

function attached(sockets: readonly WebSocket[]): readonly AgentSocket[] {
  return sockets.flatMap((socket) => {
    const attachment = readAttachment(socket);
    return attachment === null ? [] : [{ socket, attachment }];
  });
}
