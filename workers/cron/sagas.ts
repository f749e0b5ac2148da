import { markHostsDestroying } from "../../db/hosts.ts";
import { countRestart, endSaga, type SagaRow, takeSagasToSweep } from "../../db/sagas.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { isSagaWorkflow, type SagaWorkflow } from "../../domain/saga/ids.ts";
import { endByNodeState, needsTouch, planSagaRepair, type SagaRepair } from "../../domain/saga/repair.ts";
import { errorText, log } from "../../durable-objects/shared/log.ts";
import { becomeFailed } from "../workflows/activities/nodes.ts";
import { forEachBounded } from "./bounded.ts";
import type { SweepCounts, SweepDeps } from "./deps.ts";

/**
 * Compares every saga that should be running with what the engine says, and repairs: what the engine does not know is
 * created, what errored is started again, what ended without closing its row is closed by the node's own state, and
 * what has not moved for a while is touched, which wakes an instance that sleeps since the runtime was killed.
 */
export async function sweepSagas(deps: SweepDeps): Promise<SweepCounts> {
  const { sweepBatch, sweepParallel } = DEFAULTS.saga;
  const rows = await deps.database((db) => takeSagasToSweep(db, deps.config.TENANT, sweepBatch, new Date(deps.now())));
  const counts = { looked: rows.length, create: 0, restart: 0, give_up: 0, reconcile: 0, none: 0, failed: 0 };
  await forEachBounded(rows, sweepParallel, async (row) => {
    try {
      counts[await repairSaga(deps, row)] += 1;
    } catch (thrown) {
      counts.failed += 1;
      log("error", "saga not repaired", { saga: row.id, error: errorText(thrown) });
    }
  });
  return counts;
}

/** Looks at one saga; answers what it needed. */
export async function repairSaga(deps: SweepDeps, row: SagaRow): Promise<SagaRepair> {
  const { id, workflow, nodeId } = row;
  if (!isSagaWorkflow(workflow)) throw new Error(`There is no workflow ${workflow}.`);
  const status = await deps.instanceStatus(workflow, id);
  const plan = planSagaRepair(status, row.restarts, DEFAULTS.saga.restartLimit);
  if (plan !== "none") log("warn", "saga repaired", { saga: id, plan, status, restarts: row.restarts });
  switch (plan) {
    case "none":
      if (needsTouch(status, deps.now() - row.updatedAt.getTime(), DEFAULTS.saga.touchAfterMs)) {
        await deps.touchInstance(workflow, id);
      }
      break;
    case "create":
      await deps.startInstance(workflow, id, nodeId);
      break;
    case "restart":
      await restart(deps, workflow, id);
      break;
    case "reconcile":
      await reconcile(deps, workflow, row);
      break;
    case "give_up":
      await giveUp(deps, workflow, row);
      break;
  }
  return plan;
}

/** Counted before it is done, so that a restart which fails again and again comes to an end. */
async function restart(deps: SweepDeps, workflow: SagaWorkflow, id: string): Promise<void> {
  if (await deps.database((db) => countRestart(db, id, new Date(deps.now())))) {
    await deps.restartInstance(workflow, id);
  }
}

/** The instance is over and its row is not: the node says which of both is right. */
async function reconcile(deps: SweepDeps, workflow: SagaWorkflow, row: SagaRow): Promise<void> {
  const { state } = await deps.node(row.nodeId, (node) => node.view());
  const end = endByNodeState(workflow, state);
  if (end !== null) {
    await close(deps, row.id, end, null);
  } else if (row.restarts < DEFAULTS.saga.restartLimit) {
    await restart(deps, workflow, row.id);
  } else {
    await giveUp(deps, workflow, row);
  }
}

/**
 * A saga that errors for ever must not hold its node for ever. What it may have left at a provider is left to the hosts
 * sweep; a re-enrolment leaves the node and its host as they are.
 */
async function giveUp(deps: SweepDeps, workflow: SagaWorkflow, { id, nodeId }: SagaRow): Promise<void> {
  if (workflow !== "reenroll-node") {
    await deps.database((db) => markHostsDestroying(db, nodeId, new Date(deps.now())));
  }
  if (workflow === "provision-node") {
    await becomeFailed(deps, { id, workflow, nodeId }, "internal: the provision failed again and again");
  }
  await close(deps, id, "failed", "The saga failed again and again; look at its last step.");
}

async function close(
  deps: SweepDeps,
  id: string,
  status: "succeeded" | "failed" | "superseded",
  message: string | null,
): Promise<void> {
  const code = status === "failed" ? "internal" : null;
  await deps.database((db) => endSaga(db, id, { status, code, message, partialFailures: [] }, new Date(deps.now())));
}
