import { DEFAULTS } from "../../domain/defaults.ts";
import { type ErrorCode, OrreryError, toErrorData } from "../../domain/errors.ts";
import type { EpochMs } from "../../domain/node/node.ts";
import { isTerminal } from "../../domain/node/transition.ts";
import { now } from "../shared/clock.ts";
import { errorText, log } from "../shared/log.ts";
import { type Attachment, type OpenAttachment, readAttachment, writeAttachment } from "./attachment.ts";
import type { NodeChange, NodeWriter } from "./change.ts";
import type { CommandPulse } from "./command-pulse.ts";
import type { NodeCommands } from "./commands.ts";
import { FrameBudget } from "./frame-budget.ts";
import { type AgentFrame, type AgentStatus, decodeFrame, welcomeFrame } from "./frames.ts";
import type { SagaEvent } from "./saga-events.ts";
import type { NodeSockets } from "./sockets.ts";
import type { InstallationRecord, NodeRecord, NodeStore } from "./store.ts";
import type { NodeWatch } from "./watch.ts";

interface SessionParts {
  readonly store: NodeStore;
  readonly sockets: NodeSockets;
  readonly writer: NodeWriter;
  readonly watch: NodeWatch;
  readonly commands: NodeCommands;
  readonly pulse: CommandPulse;
  readonly tellSaga: (event: SagaEvent) => void;
}

/** Why an agent is turned away; without `reconnectAfterMs` it must not come back. */
interface Refusal {
  readonly code: ErrorCode;
  readonly message: string;
  readonly reconnectAfterMs: number | null;
}

type Hello = Extract<AgentFrame, { kind: "hello" }>;

/** The agents' side of a node: connections, greetings, frames. */
export class NodeSession {
  readonly #parts: SessionParts;
  readonly #budget = new FrameBudget();

  constructor(parts: SessionParts) {
    this.#parts = parts;
  }

  /**
   * Takes an upgrade request whose token the Worker has verified for the generation in `Orrery-Generation`.
   * An agent that does not belong here (any more) hears so on its socket, since that is what it listens to.
   */
  accept(request: Request): Response {
    if (request.headers.get("Upgrade")?.toLowerCase() !== "websocket") return refuseRequest(426, "invalid_request");
    const generation = Number(request.headers.get("Orrery-Generation"));
    const node = this.#parts.store.node();
    if (node === null || !Number.isSafeInteger(generation)) return refuseRequest(404, "node_not_found");
    const { 0: client, 1: server } = new WebSocketPair();
    const refusal = strangeness(node, this.#parts.store.installation(generation));
    if (refusal === null) this.#greet(server, generation);
    else this.#turnAway(server, refusal);
    return new Response(null, { status: 101, webSocket: client });
  }

  /** One frame. What is not the protocol's closes the session; nothing has changed by it. */
  onMessage(socket: WebSocket, data: ArrayBuffer | string): void {
    // What was under way when we closed.
    if (socket.readyState !== WebSocket.OPEN) return;
    const attachment = readAttachment(socket);
    try {
      if (attachment === null) this.#parts.sockets.close(socket, "unknown session");
      else this.#dispatch(socket, attachment, decodeFrame(data));
    } catch (thrown) {
      const { code, message } = toErrorData(thrown);
      log("warn", "frame refused", { code, error: errorText(thrown) });
      this.#parts.sockets.dismiss(socket, code, message, DEFAULTS.agent.reconnectMaxMs);
      this.onClose(socket);
    }
  }

  /** The connection has ended. It may come late, twice or never; only the present session's end counts. */
  onClose(socket: WebSocket): void {
    const attachment = readAttachment(socket);
    if (attachment === null || attachment.phase !== "open") return;
    const installation = this.#present(attachment);
    if (installation === null) return;
    const { sockets, watch, writer } = this.#parts;
    const heardAt = sockets.lastBeatAt({ socket, attachment });
    const lastBeatAt = Math.max(heardAt, installation.lastBeatAt ?? 0);
    writer.commit((change) => watch.disconnect(change, installation, lastBeatAt));
  }

  /** When the next silent connection has to be closed; null when all have greeted. */
  greetingDeadline(): EpochMs | null {
    const waiting = this.#parts.sockets.all().flatMap(({ attachment }) => {
      return attachment.phase === "greeting" ? [attachment.acceptedAt + DEFAULTS.agent.helloMs] : [];
    });
    return waiting.length === 0 ? null : Math.min(...waiting);
  }

  closeSilentConnections(): void {
    for (const { socket, attachment } of this.#parts.sockets.all()) {
      if (attachment.phase !== "greeting" || now() < attachment.acceptedAt + DEFAULTS.agent.helloMs) continue;
      const message = "The session did not begin with a Hello in time.";
      this.#parts.sockets.dismiss(socket, "malformed_frame", message, DEFAULTS.agent.reconnectMaxMs);
    }
  }

  #greet(server: WebSocket, generation: number): void {
    this.#parts.sockets.accept(server, generation);
    writeAttachment(server, { phase: "greeting", generation, acceptedAt: now() });
  }

  #turnAway(server: WebSocket, refusal: Refusal): void {
    server.accept();
    this.#parts.sockets.dismiss(server, refusal.code, refusal.message, refusal.reconnectAfterMs);
  }

  #dispatch(socket: WebSocket, attachment: Attachment, frame: AgentFrame): void {
    if (attachment.phase === "greeting" && frame.kind === "hello") {
      this.#hello(socket, attachment.generation, frame);
    } else if (attachment.phase === "open" && frame.kind !== "hello") {
      this.#hear(socket, attachment, frame);
    } else {
      throw new OrreryError("malformed_frame", "A session begins with its one Hello.");
    }
  }

  #hear(socket: WebSocket, attachment: OpenAttachment, frame: Exclude<AgentFrame, Hello>): void {
    if (this.#present(attachment) === null) {
      this.#parts.sockets.close(socket, "superseded session");
      return;
    }
    const { generation } = attachment;
    if (this.#budget.isSpent(generation, now())) {
      throw new OrreryError("rate_limited", "The agent sends too many frames.", {
        retry_after: DEFAULTS.agent.reconnectMaxMs / 1_000,
      });
    }
    writeAttachment(socket, { ...attachment, heardAt: now() });
    const isAnswer = this.#parts.writer.commit((change) => {
      const moved = this.#frame(change, generation, frame);
      this.#parts.watch.evaluate(change);
      return moved;
    });
    if (!isAnswer) this.#budget.spend(generation, now());
  }

  /** Answers whether the frame moved a command, which it can do only as often as commands are sent. */
  #frame(change: NodeChange, generation: number, frame: Exclude<AgentFrame, Hello>): boolean {
    switch (frame.kind) {
      case "beat":
        this.#parts.pulse.report(generation, frame.runningCommandIds, change.at);
        return false;
      case "status":
        this.#status(change, generation, frame.status);
        return false;
      case "acknowledged":
      case "progressed":
      case "completed":
      case "failed":
        return this.#parts.commands.signal(change, generation, frame.commandId, frame);
      case "unknown":
        return false;
    }
  }

  /** The node's own status is its active installation's; a candidate's says nothing of it yet. */
  #status(change: NodeChange, generation: number, status: AgentStatus): void {
    if (this.#parts.store.activeInstallation()?.generation !== generation) return;
    if (isTerminal(change.node.state)) return;
    change.setSyncStatus(status.syncStatus, status.detail === "" ? null : status.detail);
    change.setEndpoints(status.endpoints);
  }

  #hello(socket: WebSocket, generation: number, hello: Hello): void {
    const refusal = this.#parts.writer.commit((change) => {
      const installation = this.#parts.store.installation(generation);
      const strange = strangeness(change.node, installation);
      if (strange !== null || installation === null) return strange;
      const refused = judge(installation, hello);
      if (refused === null) this.#open(change, socket, installation, hello);
      else this.#recordRefusal(change, installation, refused);
      return refused;
    });
    if (refusal === null) return;
    const { code, message, reconnectAfterMs } = refusal;
    this.#parts.sockets.dismiss(socket, code, message, reconnectAfterMs);
  }

  #open(change: NodeChange, socket: WebSocket, installation: InstallationRecord, hello: Hello): void {
    const { sockets, store, watch, commands } = this.#parts;
    const earlier = watch.session(installation);
    const { generation, readyWait } = installation;
    const { installationId, sessionEpoch, agentVersion } = hello;
    store.saveInstallation({
      ...installation,
      installationId,
      sessionEpoch,
      agentVersion,
      connectedAt: change.at,
      lastBeatAt: watch.lastBeatAt(installation),
      readyWait: null,
    });
    writeAttachment(socket, {
      phase: "open",
      generation,
      installationId,
      sessionEpoch,
      openedAt: change.at,
      heardAt: change.at,
      sightings: [],
    });
    if (earlier !== null) change.afterwards(() => sockets.close(earlier.socket, "superseded session"));
    change.afterwards(() => sockets.send(socket, welcomeFrame(change.at)));
    change.emit({ kind: "agent_connected", installationId, generation, sessionEpoch });
    if (readyWait !== null) this.#parts.tellSaga({ wait: readyWait, payload: { generation } });
    if (hello.status !== null) this.#status(change, generation, hello.status);
    watch.evaluate(change);
    commands.resume(change, generation);
  }

  /** A clone that keeps knocking is told of once in a while, not each time. */
  #recordRefusal(change: NodeChange, installation: InstallationRecord, { code, message }: Refusal): void {
    const { refusedAt } = installation;
    if (refusedAt !== null && change.at - refusedAt < DEFAULTS.node.refusalNoticeMs) return;
    this.#parts.store.saveInstallation({ ...installation, refusedAt: change.at });
    change.emit({ kind: "agent_refused", code, message });
  }

  /** The installation whose present session this is; null for a session that another has replaced. */
  #present({ generation, sessionEpoch }: OpenAttachment): InstallationRecord | null {
    const installation = this.#parts.store.installation(generation);
    if (installation === null || installation.connectedAt === null) return null;
    return installation.sessionEpoch === sessionEpoch ? installation : null;
  }
}

/** Whether a host belongs to the node at all. */
function strangeness(node: NodeRecord, installation: InstallationRecord | null): Refusal | null {
  if (isTerminal(node.state) || installation?.status === "revoked") {
    return { code: "agent_revoked", message: "This host no longer belongs to the node.", reconnectAfterMs: null };
  }
  if (installation !== null) return null;
  // Its saga may be about to announce it.
  const message = "The node does not expect an agent of this generation.";
  return { code: "no_installation", message, reconnectAfterMs: DEFAULTS.agent.reconnectMaxMs };
}

/** DESIGN section 5: one installation a generation, and every session in a higher epoch than the last. */
function judge(installation: InstallationRecord, hello: Hello): Refusal | null {
  if (!speaksProtocol(hello.protocolVersion)) {
    const message = `The edge speaks protocol version ${DEFAULTS.agent.protocolVersion}, not ${hello.protocolVersion}.`;
    return { code: "agent_protocol_unsupported", message, reconnectAfterMs: DEFAULTS.agent.reconnectMaxMs };
  }
  if (hello.generation !== installation.generation) {
    return conflict(`The token is for generation ${installation.generation}, the Hello for ${hello.generation}.`);
  }
  if (installation.installationId !== null && installation.installationId !== hello.installationId) {
    return conflict("Another installation holds this node.");
  }
  if (hello.sessionEpoch <= installation.sessionEpoch) {
    return conflict(`Session epoch ${hello.sessionEpoch} is not higher than the last; a copy of this agent runs.`);
  }
  return null;
}

/** The current version and the one before. */
function speaksProtocol(version: number): boolean {
  const { protocolVersion } = DEFAULTS.agent;
  return version >= 1 && version <= protocolVersion && version >= protocolVersion - 1;
}

function conflict(message: string): Refusal {
  return { code: "agent_conflict", message, reconnectAfterMs: null };
}

function refuseRequest(status: number, code: ErrorCode): Response {
  return Response.json({ code }, { status });
}
