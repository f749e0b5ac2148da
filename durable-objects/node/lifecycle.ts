import { canonicalJson } from "../../domain/canonical-json.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { EpochMs, NodeBirth, NodeProjection, NodeView } from "../../domain/node/node.ts";
import { isTerminal, type TransitionRequest } from "../../domain/node/transition.ts";
import { now } from "../shared/clock.ts";
import type { NodeChange, NodeWriter } from "./change.ts";
import type { NodeCommands } from "./commands.ts";
import type { NodeInstallations } from "./installations.ts";
import type { NodeRecord, NodeStore } from "./store.ts";
import type { NodeWatch } from "./watch.ts";

interface LifecycleParts {
  readonly store: NodeStore;
  readonly writer: NodeWriter;
  readonly watch: NodeWatch;
  readonly commands: NodeCommands;
  readonly installations: NodeInstallations;
  /** When commands or sagas need the object next; the heartbeat's own alarm moves with every beat and is left out. */
  readonly nextDue: () => EpochMs | null;
}

/** Birth, states and end of a node. */
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
    return { ...this.projection(node), birth: node.birth, installations: this.#parts.installations.views() };
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
    const { store, installations } = this.#parts;
    for (const installation of store.installations()) installations.releaseWait(installation);
  }

  #end(change: NodeChange): void {
    this.#parts.commands.endAll(change);
    this.#parts.installations.revokeAll(change);
  }
}
