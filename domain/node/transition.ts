import { OrreryError } from "../errors.ts";
import type { ApplicationHealth, EpochMs, NodeState, SyncStatus, TransitionTrigger } from "./node.ts";

interface TransitionRule {
  readonly from: readonly NodeState[];
  readonly to: NodeState;
  readonly by: readonly TransitionTrigger[];
}

/** DESIGN section 4, row by row. What is not here is refused; compensation goes by `forceTransition`. */
const TRANSITIONS: readonly TransitionRule[] = [
  { from: ["provisioning"], to: "syncing", by: ["provision_saga"] },
  { from: ["provisioning"], to: "failed", by: ["provision_saga", "compensation"] },
  { from: ["syncing"], to: "healthy", by: ["evaluation"] },
  { from: ["healthy"], to: "syncing", by: ["evaluation"] },
  { from: ["syncing", "healthy", "degraded"], to: "down", by: ["heartbeat"] },
  { from: ["down"], to: "healthy", by: ["heartbeat"] },
  { from: ["down"], to: "syncing", by: ["heartbeat"] },
  { from: ["degraded"], to: "healthy", by: ["evaluation"] },
  { from: ["degraded"], to: "syncing", by: ["evaluation"] },
  { from: ["syncing", "healthy", "degraded", "down"], to: "maintenance", by: ["migrate_saga", "upgrade_saga"] },
  { from: ["maintenance"], to: "syncing", by: ["migrate_saga", "upgrade_saga", "compensation", "maintenance_sweep"] },
  { from: ["maintenance"], to: "healthy", by: ["upgrade_saga", "compensation", "maintenance_sweep"] },
  { from: ["maintenance"], to: "degraded", by: ["migrate_saga", "upgrade_saga", "compensation", "maintenance_sweep"] },
  { from: ["maintenance"], to: "failed", by: ["migrate_saga", "compensation"] },
  {
    from: ["provisioning", "syncing", "healthy", "degraded", "down", "maintenance"],
    to: "terminating",
    by: ["terminate_saga", "operator"],
  },
  { from: ["terminating"], to: "terminated", by: ["terminate_saga"] },
];

/** The part of a node that a transition changes. */
export interface NodeCondition {
  readonly state: NodeState;
  readonly stateSince: EpochMs;
  readonly applicationHealth: ApplicationHealth;
  readonly syncStatus: SyncStatus;
  /** The last beat before the node went down; null while it is not down. */
  readonly downSince: EpochMs | null;
  /** The state that maintenance was entered from; null outside of it. */
  readonly maintenanceFrom: NodeState | null;
}

export interface TransitionRequest {
  readonly to: NodeState;
  readonly trigger: TransitionTrigger;
  /** When the new state began; `down` is dated back to the last beat. */
  readonly effectiveAt: EpochMs;
}

export function isTerminal(state: NodeState): state is "terminated" | "failed" {
  return state === "terminated" || state === "failed";
}

/**
 * Moves a node by the table; being in `to` already is a success that changes nothing (the same object comes back).
 * @throws node_ended, node_terminating, invalid_transition
 */
export function transition(condition: NodeCondition, request: TransitionRequest): NodeCondition {
  if (condition.state === request.to) return condition;
  refuseEnded(condition.state);
  if (wasProvisioned(condition.state, request)) return condition;
  if (isAllowed(condition.state, request.to, request.trigger)) return enter(condition, request);
  const details = { from: condition.state, to: request.to, trigger: request.trigger };
  if (condition.state === "terminating") {
    throw new OrreryError("node_terminating", `The node is terminating; it cannot become ${request.to}.`, details);
  }
  throw new OrreryError(
    "invalid_transition",
    `A node that is ${condition.state} cannot become ${request.to} by ${request.trigger}.`,
    details,
  );
}

/**
 * Skips the table, for compensation and operators; never leaves a terminal state.
 * @throws node_ended
 */
export function forceTransition(condition: NodeCondition, request: TransitionRequest): NodeCondition {
  if (condition.state === request.to) return condition;
  refuseEnded(condition.state);
  return enter(condition, request);
}

function isAllowed(from: NodeState, to: NodeState, trigger: TransitionTrigger): boolean {
  return TRANSITIONS.some((rule) => rule.to === to && rule.from.includes(from) && rule.by.includes(trigger));
}

/** A saga whose answer was lost asks again; meanwhile the node may have become healthy or gone down by itself. */
function wasProvisioned(state: NodeState, { to, trigger }: TransitionRequest): boolean {
  return trigger === "provision_saga" && to === "syncing" && state !== "provisioning" && state !== "terminating";
}

function refuseEnded(state: NodeState): void {
  if (isTerminal(state)) throw new OrreryError("node_ended", `The node has ended as ${state}.`, { state });
}

function enter(condition: NodeCondition, { to, effectiveAt }: TransitionRequest): NodeCondition {
  const ended = isTerminal(to);
  return {
    state: to,
    stateSince: effectiveAt,
    applicationHealth: ended ? "unknown" : condition.applicationHealth,
    syncStatus: ended ? "unknown" : condition.syncStatus,
    downSince: to === "down" ? effectiveAt : null,
    maintenanceFrom: to === "maintenance" ? condition.state : null,
  };
}
