import type { ApplicationHealth, NodeState, SyncStatus } from "./node.ts";

export type DisplayState = NodeState | "critical" | "stalled";

/**
 * The one word that people see: what the infrastructure says comes first (a node that is down is down, whatever its
 * chain last said), then application health, then sync.
 */
export function displayState(
  state: NodeState,
  applicationHealth: ApplicationHealth,
  syncStatus: SyncStatus,
): DisplayState {
  if (state !== "healthy" && state !== "syncing" && state !== "degraded") return state;
  if (applicationHealth === "critical") return "critical";
  if (applicationHealth === "degraded" || state === "degraded") return "degraded";
  if (syncStatus === "stalled") return "stalled";
  if (syncStatus === "syncing") return "syncing";
  return state;
}
