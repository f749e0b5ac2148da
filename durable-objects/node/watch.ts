import { DEFAULTS } from "../../domain/defaults.ts";
import {
  evaluateHeartbeat,
  type HeartbeatDecision,
  type HeartbeatSnapshot,
  silenceLimitMs,
} from "../../domain/health/heartbeat.ts";
import type { EpochMs } from "../../domain/node/node.ts";
import { isTerminal } from "../../domain/node/transition.ts";
import type { OpenAttachment } from "./attachment.ts";
import type { NodeChange } from "./change.ts";
import type { AgentSocket, NodeSockets } from "./sockets.ts";
import type { InstallationRecord, NodeRecord, NodeStore } from "./store.ts";

/** Knows when agents were last heard, and lets the heartbeat rule decide. */
export class NodeWatch {
  readonly #store: NodeStore;
  readonly #sockets: NodeSockets;

  constructor(store: NodeStore, sockets: NodeSockets) {
    this.#store = store;
    this.#sockets = sockets;
  }

  session(installation: InstallationRecord | null): AgentSocket<OpenAttachment> | null {
    if (installation === null || installation.connectedAt === null) return null;
    return this.#sockets.session(installation.generation, installation.sessionEpoch);
  }

  lastBeatAt(installation: InstallationRecord): EpochMs | null {
    const session = this.session(installation);
    if (session === null) return installation.lastBeatAt;
    return Math.max(installation.lastBeatAt ?? 0, this.#sockets.lastBeatAt(session));
  }

  decide(node: NodeRecord, now: EpochMs): HeartbeatDecision {
    return evaluateHeartbeat(this.#snapshot(node), DEFAULTS, now);
  }

  /** Applies the rule's verdict. A node that goes down loses its sockets, so that its agent's return is a new session. */
  evaluate(change: NodeChange): void {
    const { transition } = this.decide(change.node, change.at);
    if (transition === null) return;
    const { reason, ...request } = transition;
    change.transition(request, { reason });
    if (transition.to === "down") this.#dropActiveSession(change);
  }

  /** The session has ended: its newest beat moves from the socket to the row. */
  disconnect(change: NodeChange, installation: InstallationRecord, lastBeatAt: EpochMs | null): void {
    this.#store.saveInstallation({ ...installation, connectedAt: null, lastBeatAt });
    if (installation.installationId === null) return;
    change.emit({ kind: "agent_disconnected", installationId: installation.installationId, lastBeatAt });
  }

  /**
   * Whether we have not been listening: a session's socket is gone though nobody told us of its end (a restart), or the
   * alarm came far too late and no socket shows that the runtime answered beats meanwhile.
   */
  hasListeningGap(node: NodeRecord, alarmAt: EpochMs | null, now: EpochMs): boolean {
    if (isTerminal(node.state)) return false;
    if (this.#lostSessions().length > 0) return true;
    // An alarm from before the present listening has been accounted for.
    if (alarmAt === null || alarmAt < node.listeningSince) return false;
    const isLate = now - alarmAt > DEFAULTS.node.overdueMs;
    return isLate && this.session(this.#store.activeInstallation()) === null;
  }

  /** Silence during the gap proves nothing, so listening starts afresh; the gap began at the last beat that we knew of. */
  recordListeningGap(change: NodeChange, alarmAt: EpochMs | null): void {
    const active = this.#store.activeInstallation();
    const known = alarmAt === null ? 0 : alarmAt - silenceLimitMs(DEFAULTS);
    const from = Math.max(known, active?.lastBeatAt ?? 0, active?.connectedAt ?? 0, change.node.listeningSince);
    for (const installation of this.#lostSessions()) this.disconnect(change, installation, installation.lastBeatAt);
    change.set({ listeningSince: change.at });
    change.emit({ kind: "listening_gap", from: Math.min(from, change.at), to: change.at });
  }

  #lostSessions(): readonly InstallationRecord[] {
    return this.#store.installations().filter(({ connectedAt, generation, sessionEpoch }) => {
      return connectedAt !== null && !this.#sockets.holdsSession(generation, sessionEpoch);
    });
  }

  #dropActiveSession(change: NodeChange): void {
    const active = this.#store.activeInstallation();
    const session = this.session(active);
    if (active === null || session === null) return;
    this.disconnect(change, active, this.lastBeatAt(active));
    change.afterwards(() => this.#sockets.close(session.socket, "silent for too long"));
  }

  #snapshot(node: NodeRecord): HeartbeatSnapshot {
    const active = this.#store.activeInstallation();
    return {
      state: node.state,
      stateSince: node.stateSince,
      applicationHealth: node.applicationHealth,
      syncStatus: node.syncStatus,
      // Policies are judged from an agent's metric reports; this protocol version has none.
      hasPolicies: false,
      lastBeatAt: active === null ? null : this.lastBeatAt(active),
      listeningSince: node.listeningSince,
      aliveSince: this.session(active)?.attachment.openedAt ?? null,
    };
  }
}
