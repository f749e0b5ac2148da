import { canonicalJson } from "../../domain/canonical-json.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { EpochMs, NodeBirth, NodeProjection, NodeView, SagaWait } from "../../domain/node/node.ts";
import { isTerminal, type TransitionRequest } from "../../domain/node/transition.ts";
import { now } from "../shared/clock.ts";
import type { NodeChange, NodeWriter } from "./change.ts";
import type { NodeCommands } from "./commands.ts";
import type { SagaEvent } from "./saga-events.ts";
import type { NodeSockets } from "./sockets.ts";
import type { InstallationRecord, NodeRecord, NodeStore } from "./store.ts";
import type { NodeWatch } from "./watch.ts";

interface LifecycleParts {
  readonly store: NodeStore;
  readonly sockets: NodeSockets;
  readonly writer: NodeWriter;
  readonly watch: NodeWatch;
  readonly commands: NodeCommands;
  readonly tellSaga: (event: SagaEvent) => void;
  /** When commands or sagas need the object next; the heartbeat's own alarm moves with every beat and is left out. */
  readonly nextDue: () => EpochMs | null;
}

/** Birth, states, installations and end of a node. */
export class NodeLifecycle {
  readonly #parts: LifecycleParts;

  constructor(parts: LifecycleParts) {
    this.#parts = parts;
  }

  /** @throws incarnation_conflict */
  initialise(birth: NodeBirth): void {
    const existing = this.#parts.store.node();
    if (existing === null) {
      this.#begin(birth, now());
      return;
    }
    if (canonicalJson(existing.birth) === canonicalJson(birth)) return;
    const message = "The node was created from other facts.";
    throw new OrreryError("incarnation_conflict", message, { incarnation: existing.incarnation });
  }

  /** @throws node_ended, node_terminating */
  expectInstallation(change: NodeChange, generation: number, notify: SagaWait | null): void {
    const { store, watch } = this.#parts;
    const existing = store.installation(generation);
    if (existing === null) refuseNewInstallation(change.node);
    const installation = existing ?? expected(generation, this.#statusFor(generation));
    const isConnected = watch.session(installation) !== null;
    const readyWait = notify === null || isConnected ? installation.readyWait : notify;
    if (existing === null || readyWait !== existing.readyWait) store.saveInstallation({ ...installation, readyWait });
    if (notify !== null && isConnected) this.#parts.tellSaga({ wait: notify, payload: { generation } });
  }

  isAgentReady(generation: number): boolean {
    const installation = this.#parts.store.installation(generation);
    if (installation === null || this.#parts.watch.session(installation) === null) return false;
    const lastBeatAt = this.#parts.watch.lastBeatAt(installation);
    return lastBeatAt !== null && now() - lastBeatAt < DEFAULTS.heartbeat.firstFailureMs;
  }

  /** @throws node_ended, node_terminating, invalid_transition */
  transition(change: NodeChange, request: TransitionRequest, reason: string | null): void {
    if (change.transition(request, { reason })) this.#entered(change);
  }

  /** @throws node_ended */
  force(change: NodeChange, request: TransitionRequest, reason: string, actor: string): void {
    if (change.force(request, { reason, actor })) this.#entered(change);
  }

  view(node: NodeRecord): NodeView {
    const installations = this.#parts.store.installations().map((installation) => this.#installationView(installation));
    return { ...this.projection(node), birth: node.birth, installations };
  }

  projection(node: NodeRecord): NodeProjection {
    return {
      nodeId: node.birth.nodeId,
      incarnation: node.incarnation,
      stateVersion: node.stateVersion,
      state: node.state,
      applicationHealth: node.applicationHealth,
      syncStatus: node.syncStatus,
      stateSince: node.stateSince,
      downSince: node.downSince,
      endpoints: node.endpoints,
      nextDue: isTerminal(node.state) ? null : this.#parts.nextDue(),
    };
  }

  #begin(birth: NodeBirth, at: EpochMs): void {
    const node: NodeRecord = {
      birth,
      incarnation: at,
      stateVersion: 1,
      state: "provisioning",
      stateSince: at,
      applicationHealth: "unknown",
      syncStatus: "unknown",
      downSince: null,
      maintenanceFrom: null,
      endpoints: {},
      listeningSince: at,
      storageRemoved: false,
    };
    this.#parts.writer.begin(node, {
      kind: "state_changed",
      from: null,
      to: "provisioning",
      trigger: "provision_saga",
      forced: false,
      effectiveAt: at,
      reason: null,
    });
  }

  /** What a state brings with it. Where nothing does, beats may already have earned the next one. */
  #entered(change: NodeChange): void {
    if (change.node.state === "terminating") this.#beginTermination(change);
    else if (isTerminal(change.node.state)) this.#end(change);
    else this.#parts.watch.evaluate(change);
  }

  /** Whoever waits for a command or an agent is woken at once, sees the state and unwinds. */
  #beginTermination(change: NodeChange): void {
    this.#parts.commands.supersedeAll(change);
    for (const installation of this.#parts.store.installations()) this.#releaseWait(installation);
  }

  #end(change: NodeChange): void {
    const { commands, store, sockets } = this.#parts;
    commands.endAll(change);
    for (const installation of store.installations()) {
      this.#releaseWait(installation);
      store.saveInstallation({ ...installation, status: "revoked", connectedAt: null, readyWait: null });
    }
    change.afterwards(() => {
      for (const { socket } of sockets.all()) sockets.dismiss(socket, "agent_revoked", "The node has ended.", null);
    });
  }

  #releaseWait(installation: InstallationRecord): void {
    const { readyWait, generation } = installation;
    if (readyWait === null) return;
    this.#parts.tellSaga({ wait: readyWait, payload: { generation } });
    this.#parts.store.saveInstallation({ ...installation, readyWait: null });
  }

  #statusFor(generation: number): "active" | "candidate" {
    const active = this.#parts.store.activeInstallation();
    return active !== null && active.generation < generation ? "candidate" : "active";
  }

  #installationView(installation: InstallationRecord) {
    const { installationId, generation, status, sessionEpoch, agentVersion } = installation;
    const connected = this.#parts.watch.session(installation) !== null;
    const lastBeatAt = this.#parts.watch.lastBeatAt(installation);
    return { installationId, generation, status, sessionEpoch, connected, lastBeatAt, agentVersion };
  }
}

function expected(generation: number, status: "active" | "candidate"): InstallationRecord {
  return {
    generation,
    status,
    installationId: null,
    sessionEpoch: 0,
    agentVersion: null,
    connectedAt: null,
    lastBeatAt: null,
    refusedAt: null,
    readyWait: null,
  };
}

function refuseNewInstallation({ state }: NodeRecord): void {
  if (isTerminal(state)) throw new OrreryError("node_ended", `The node has ended as ${state}.`);
  if (state === "terminating") throw new OrreryError("node_terminating", "The node is being terminated.");
}
