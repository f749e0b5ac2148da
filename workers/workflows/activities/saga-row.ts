import { endSaga, endStep, otherRunningSagas, type SagaResult } from "../../../db/sagas.ts";
import { isSagaWorkflow, SAGA_ENDED_EVENT } from "../../../domain/saga/ids.ts";
import { endByNodeState, type SagaEnd } from "../../../domain/saga/repair.ts";
import { stepPosition } from "../../../domain/saga/steps.ts";
import { log } from "../../../durable-objects/shared/log.ts";
import type { AgentSaga, SagaDeps, SagaRef } from "../deps.ts";
import type { SagaFailure } from "../failures.ts";
import { viewNode } from "./nodes.ts";

/**
 * Reads from the node itself what became of a provision of which a step failed: `succeeded` when the node was handed
 * over before (the step that failed had been done), `superseded` when somebody else ends the node, else `failed`.
 */
export async function readVerdict(deps: SagaDeps, saga: SagaRef, { step, failure }: SagaFailure): Promise<SagaEnd> {
  const { state } = await viewNode(deps, saga);
  const verdict = endByNodeState(saga.workflow, state) ?? "failed";
  if (verdict === "succeeded") return verdict;
  const mark = { sagaId: saga.id, name: step, position: stepPosition(saga.workflow, step) };
  const detail = `${failure.code}: ${failure.message}`;
  await deps.database((db) => endStep(db, mark, { status: "failed", detail }, new Date(deps.now())));
  return verdict;
}

/** `superseded` when the node is being ended, or has been re-enrolled again: then nobody needs this saga any more. */
export async function readReenrolmentVerdict(deps: SagaDeps, saga: AgentSaga): Promise<SagaEnd> {
  const { state, installations } = await viewNode(deps, saga);
  const agent = installations.find(({ generation }) => generation === saga.generation);
  if (agent?.status === "revoked") return "superseded";
  return endByNodeState(saga.workflow, state) ?? "failed";
}

/** Closes the saga's row, and wakes the sagas of the node that may wait for that. */
export async function closeSaga(deps: SagaDeps, saga: SagaRef, result: SagaResult): Promise<SagaEnd> {
  const closed = await deps.database((db) => endSaga(db, saga.id, result, new Date(deps.now())));
  if (closed) log("info", "saga ended", { saga: saga.id, node: saga.nodeId, status: result.status, code: result.code });
  for (const { id, workflow } of await deps.database((db) => otherRunningSagas(db, saga.nodeId, saga.id))) {
    if (isSagaWorkflow(workflow)) await deps.wake(workflow, id, SAGA_ENDED_EVENT);
  }
  return result.status;
}

/** Whether another saga of the node should still be running; looking at it also wakes one that sleeps. */
export async function lookForOtherSagas(deps: SagaDeps, saga: SagaRef): Promise<"none" | "running"> {
  const others = await deps.database((db) => otherRunningSagas(db, saga.nodeId, saga.id));
  for (const { id, workflow } of others) {
    if (isSagaWorkflow(workflow)) await deps.touch(workflow, id);
  }
  return others.length === 0 ? "none" : "running";
}
