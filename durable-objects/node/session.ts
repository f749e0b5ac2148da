import { hexToBytes } from "@noble/hashes/utils.js";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";
import { frameProblem, type SealedFrame } from "../../domain/identity/frame-seal.ts";
import { isTerminal } from "../../domain/node/transition.ts";
import { now } from "../shared/clock.ts";
import { editSession, type OpenAttachment, readAttachment, writeAttachment } from "./attachment.ts";
import type { NodeChange, NodeWriter } from "./change.ts";
import type { CommandPulse } from "./command-pulse.ts";
import type { NodeCommands } from "./commands.ts";
import { welcomeBody } from "./control-frames.ts";
import type { ControlVoice } from "./control-voice.ts";
import { FrameBudget } from "./frame-budget.ts";
import { type AgentFrame, type AgentOpening, type AgentStatus, decodeBody } from "./frames.ts";
import type { SagaEvent } from "./saga-events.ts";
import type { NodeSockets } from "./sockets.ts";
import type { InstallationRecord, NodeStore } from "./store.ts";
import type { NodeWatch } from "./watch.ts";

interface SessionParts {
  readonly store: NodeStore;
  readonly sockets: NodeSockets;
  readonly voice: ControlVoice;
  readonly writer: NodeWriter;
  readonly watch: NodeWatch;
  readonly commands: NodeCommands;
  readonly pulse: CommandPulse;
  readonly tellSaga: (event: SagaEvent) => void;
}

/** What a proved handshake has come to. */
export type Agreed = Pick<OpenAttachment, "installationId" | "sessionEpoch" | "agentKey" | "controlKey" | "keyId">;

/** The present session of an installation: its begin, its frames, its end. */
export class NodeSession {
  readonly #parts: SessionParts;
  readonly #budget = new FrameBudget();

  constructor(parts: SessionParts) {
    this.#parts = parts;
  }

  /** Begins a session in place of an earlier one, and welcomes the agent. */
  open(
    change: NodeChange,
    socket: WebSocket,
    installation: InstallationRecord,
    agreed: Agreed,
    opening: AgentOpening,
  ): void {
    const { sockets, store, voice, watch, commands } = this.#parts;
    const { generation, readyWait } = installation;
    const { installationId, sessionEpoch } = agreed;
    const earlier = watch.session(installation);
    store.saveInstallation({
      ...installation,
      sessionEpoch,
      agentVersion: opening.agentVersion,
      connectedAt: change.at,
      lastBeatAt: watch.lastBeatAt(installation),
      readyWait: null,
    });
    const times = { openedAt: change.at, heardAt: change.at };
    writeAttachment(socket, { ...agreed, phase: "open", generation, received: 0, sent: 0, ...times, sightings: [] });
    if (earlier !== null) change.afterwards(() => sockets.close(earlier.socket, "superseded session"));
    change.afterwards(() => voice.tell(socket, welcomeBody(change.at, voice.keys())));
    change.emit({ kind: "agent_connected", installationId, generation, sessionEpoch });
    if (readyWait !== null) this.#parts.tellSaga({ wait: readyWait, payload: { generation } });
    if (opening.status !== null) this.#status(change, generation, opening.status);
    watch.evaluate(change);
    commands.resume(change, generation);
  }

  /**
   * One frame of a session; what it was, or null where another session has taken its place.
   * @throws frame_forged, frame_replayed, frame_out_of_order, rate_limited, malformed_frame
   */
  hear(socket: WebSocket, attachment: OpenAttachment, sealed: SealedFrame): AgentFrame | null {
    if (this.#present(attachment) === null) {
      this.#parts.sockets.close(socket, "superseded session");
      return null;
    }
    const { generation } = attachment;
    refuseFalse(attachment, sealed);
    if (this.#budget.isSpent(generation, now())) {
      throw new OrreryError("rate_limited", "The agent sends too many frames.", {
        retry_after: DEFAULTS.agent.reconnectMaxMs / 1_000,
      });
    }
    editSession(socket, () => ({ received: sealed.counter, heardAt: now() }));
    const frame = decodeBody(sealed.body);
    const isAnswer = this.#parts.writer.commit((change) => {
      const moved = this.#frame(change, generation, frame);
      this.#parts.watch.evaluate(change);
      return moved;
    });
    if (!isAnswer) this.#budget.spend(generation, now());
    return frame;
  }

  /**
   * The connection has ended. It may come late, twice or never; only the present session's end counts. Answers whether
   * it was that.
   */
  onClose(socket: WebSocket): boolean {
    const attachment = readAttachment(socket);
    if (attachment === null || attachment.phase !== "open") return false;
    const installation = this.#present(attachment);
    if (installation === null) return false;
    const { sockets, watch, writer } = this.#parts;
    const heardAt = sockets.lastBeatAt({ socket, attachment });
    const lastBeatAt = Math.max(heardAt, installation.lastBeatAt ?? 0);
    writer.commit((change) => watch.disconnect(change, installation, lastBeatAt));
    return true;
  }

  /** Answers whether the frame moved a command, which it can do only as often as commands are sent. */
  #frame(change: NodeChange, generation: number, frame: AgentFrame): boolean {
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
      case "tampering": {
        const { code, message, transport } = frame;
        change.emit({ kind: "tampering_reported", code, message, transport });
        return false;
      }
      case "alive":
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

  /** The installation whose present session this is; null for a session that another has replaced. */
  #present({ generation, sessionEpoch }: OpenAttachment): InstallationRecord | null {
    const installation = this.#parts.store.installation(generation);
    if (installation === null || installation.connectedAt === null) return null;
    return installation.sessionEpoch === sessionEpoch ? installation : null;
  }
}

function refuseFalse({ agentKey, received }: OpenAttachment, sealed: SealedFrame): void {
  const problem = frameProblem(hexToBytes(agentKey), received, sealed);
  if (problem === null) return;
  const message = `Frame ${sealed.counter} after frame ${received} is not to be believed.`;
  throw new OrreryError(problem, message);
}
