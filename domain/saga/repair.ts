import type { NodeState } from "../node/node.ts";
import { isTerminal } from "../node/transition.ts";
import type { SagaWorkflow } from "./ids.ts";

/** How a saga's row can end. */
export type SagaEnd = "succeeded" | "failed" | "superseded";

/** What the sweep does about a row that says `running`, given what the engine says of its instance. */
export type SagaRepair = "create" | "restart" | "give_up" | "reconcile" | "none";

/**
 * Compares a row that should be running with the engine's own status (null: the engine has no such instance).
 * An instance that is under way needs no repair, at most a touch.
 */
export function planSagaRepair(status: string | null, restarts: number, restartLimit: number): SagaRepair {
  switch (status) {
    case null:
      return "create";
    case "errored":
      return restarts < restartLimit ? "restart" : "give_up";
    case "complete":
    case "terminated":
      return "reconcile";
    default:
      return "none";
  }
}

/**
 * Whether an instance that says it runs may have lost its runtime in the middle of a step: it has not moved for a while
 * and waits for no event that would wake it. The engine's own timer would find it too, but only at the step's time-out.
 */
export function needsTouch(status: string | null, quietMs: number, touchAfterMs: number): boolean {
  return (status === "running" || status === "queued") && quietMs >= touchAfterMs;
}

/**
 * How a saga ended whose instance is over but whose row was never closed, read from the node itself; null when the
 * node shows that the work is not done, so that the instance must run again.
 */
export function endByNodeState(workflow: SagaWorkflow, state: NodeState): SagaEnd | null {
  if (workflow === "terminate-node") return isTerminal(state) ? "succeeded" : null;
  // A living node does not show what a re-enrolment has done; its steps find it.
  if (workflow === "reenroll-node") return state === "terminating" || isTerminal(state) ? "superseded" : null;
  switch (state) {
    case "provisioning":
      return null;
    case "failed":
      return "failed";
    case "terminating":
    case "terminated":
      return "superseded";
    default:
      return "succeeded";
  }
}
