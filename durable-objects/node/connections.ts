import { DEFAULTS } from "../../domain/defaults.ts";
import { type ErrorCode, toErrorData } from "../../domain/errors.ts";
import { isFrameTampering } from "../../domain/identity/tampering.ts";
import { errorText, log } from "../shared/log.ts";
import { type Attachment, readAttachment } from "./attachment.ts";
import type { NodeWriter } from "./change.ts";
import type { NodeContention } from "./contention.ts";
import type { ControlVoice } from "./control-voice.ts";
import type { NodeHandshake } from "./handshake.ts";
import type { NodeInstallations } from "./installations.ts";
import type { NodeSession } from "./session.ts";
import type { NodeSockets } from "./sockets.ts";
import type { NodeRecord } from "./store.ts";
import { decodeMessage, malformed, type WireMessage } from "./wire.ts";

interface ConnectionParts {
  readonly sockets: NodeSockets;
  readonly voice: ControlVoice;
  readonly writer: NodeWriter;
  readonly handshake: NodeHandshake;
  readonly contention: NodeContention;
  readonly session: NodeSession;
  readonly installations: NodeInstallations;
}

/** The agents' side of a node: takes connections in and brings each frame to where its connection has come to. */
export class NodeConnections {
  readonly #parts: ConnectionParts;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
  }

  /**
   * Takes an upgrade request whose ticket the Worker has verified for what the Orrery-* headers say. Who is not the
   * installation that has enrolled is refused at once, and nothing is kept of it. An agent that is refused hears so after
   * its Hello, because only an answer to that can be believed.
   */
  accept(node: NodeRecord | null, request: Request): Response {
    if (request.headers.get("Upgrade")?.toLowerCase() !== "websocket") return refuseRequest(426, "invalid_request");
    const ticket = ticketOf(request.headers);
    if (node === null) return refuseRequest(404, "node_not_found");
    if (ticket === null) return refuseRequest(400, "invalid_request");
    const { handshake } = this.#parts;
    const signature = request.headers.get("Orrery-Signature") ?? "";
    if (!handshake.admits(node, ticket, signature)) return refuseRequest(401, "proof_invalid");
    const { 0: client, 1: server } = new WebSocketPair();
    handshake.greet(server, ticket);
    return new Response(null, { status: 101, webSocket: client });
  }

  /** One frame. What is not the protocol's ends the connection; nothing has changed by it. */
  onMessage(node: NodeRecord, socket: WebSocket, data: ArrayBuffer | string): void {
    // What was under way when we closed.
    if (socket.readyState !== WebSocket.OPEN) return;
    const attachment = readAttachment(socket);
    if (attachment === null) {
      this.#parts.sockets.close(socket, "unknown session");
      return;
    }
    try {
      this.#dispatch(node, socket, attachment, decodeMessage(data));
    } catch (thrown) {
      this.#refuseFrame(socket, attachment, thrown);
    }
  }

  onClose(socket: WebSocket): void {
    const generation = readAttachment(socket)?.generation;
    if (!this.#parts.session.onClose(socket) || generation === undefined) return;
    this.#parts.contention.holderLeft(generation);
  }

  #dispatch(node: NodeRecord, socket: WebSocket, attachment: Attachment, message: WireMessage): void {
    const { handshake, session, contention } = this.#parts;
    if (attachment.phase === "greeting" && message.kind === "hello") {
      handshake.hello(node, socket, attachment, message.bytes);
    } else if (attachment.phase === "challenged" && message.kind === "proof") {
      handshake.proof(socket, attachment, message);
    } else if (attachment.phase === "open" && message.kind === "sealed") {
      const frame = session.hear(socket, attachment, message.frame);
      if (frame?.kind === "alive") contention.holderAnswered(attachment.generation, frame.question);
    } else {
      throw malformed("a session is one Hello, one Proof, then sealed frames");
    }
  }

  #refuseFrame(socket: WebSocket, { generation, phase }: Attachment, thrown: unknown): void {
    const { voice, writer, installations } = this.#parts;
    const { code, message } = toErrorData(thrown);
    log("warn", "frame refused", { code, error: errorText(thrown) });
    const { reconnectMaxMs } = DEFAULTS.agent;
    voice.dismiss(socket, { code, message, reconnectAfterMs: reconnectMaxMs, sessionEpoch: null });
    if (phase === "open" && isFrameTampering(code))
      writer.commit((change) => installations.recordRefusal(change, generation, { code, message }));
    this.onClose(socket);
  }
}

function ticketOf(headers: Headers) {
  const generation = Number(headers.get("Orrery-Generation") ?? "-");
  const sessionEpoch = Number(headers.get("Orrery-Epoch") ?? "-");
  const installationId = headers.get("Orrery-Installation");
  if (!Number.isSafeInteger(generation) || !Number.isSafeInteger(sessionEpoch) || !installationId) return null;
  return { generation, sessionEpoch, installationId };
}

function refuseRequest(status: number, code: ErrorCode): Response {
  return Response.json({ code }, { status });
}
