import type { NodeState } from "../node/node.ts";
import type { SagaWorkflow } from "./ids.ts";

/** How a saga's row can end. */
export type SagaEnd = "succeeded" | "failed" | "superseded";

/** What the sweep does about a row that says `running`, given what the engine says of its instance. */
export type SagaRepair = "create" | "restart" | "give_up" | "reconcile" | "none";

/**
 * Compares a row that should be running with the engine's own status (null: the engine has no such instance).
 * Asking for the status was itself the touch that wakes a sleeping instance, so a healthy one needs nothing more.
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
 * How a saga ended whose instance is over but whose row was never closed, read from the node itself; null when the
 * node shows that the work is not done, so that the instance must run again.
 */
export function endByNodeState(workflow: SagaWorkflow, state: NodeState): SagaEnd | null {
  if (workflow === "terminate-node") return state === "terminated" || state === "failed" ? "succeeded" : null;
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
