import { endSaga, endStep, otherRunningSagas, type SagaResult } from "../../../db/sagas.ts";
import { errorCodeOf } from "../../../domain/errors.ts";
import type { NodeState } from "../../../domain/node/node.ts";
import { isSagaWorkflow, SAGA_ENDED_EVENT } from "../../../domain/saga/ids.ts";
import { endByNodeState, type SagaEnd } from "../../../domain/saga/repair.ts";
import { stepPosition } from "../../../domain/saga/steps.ts";
import { log } from "../../../durable-objects/shared/log.ts";
import type { SagaDeps, SagaRef } from "../deps.ts";
import type { SagaFailure } from "../failures.ts";
import { birthOf, loadNode, viewNode } from "./nodes.ts";

/**
 * Reads from the node itself what became of a provision of which a step failed: `succeeded` when the node was handed
 * over before (the step that failed had been done), `superseded` when somebody else ends the node, else `failed`.
 */
export async function readVerdict(deps: SagaDeps, saga: SagaRef, { step, failure }: SagaFailure): Promise<SagaEnd> {
  const verdict = endByNodeState(saga.workflow, await nodeState(deps, saga)) ?? "failed";
  if (verdict === "succeeded") return verdict;
  const mark = { sagaId: saga.id, name: step, position: stepPosition(saga.workflow, step) };
  const detail = `${failure.code}: ${failure.message}`;
  await deps.database((db) => endStep(db, mark, { status: "failed", detail }, new Date(deps.now())));
  return verdict;
}

/** A node whose object was never made is made now, so that it can be seen to fail. */
async function nodeState(deps: SagaDeps, saga: SagaRef): Promise<NodeState> {
  try {
    return (await viewNode(deps, saga)).state;
  } catch (thrown) {
    if (errorCodeOf(thrown) !== "node_not_found") throw thrown;
  }
  const subject = await loadNode(deps, saga);
  return (await deps.node(saga.nodeId, (node) => node.initialise(birthOf(subject)))).state;
}

/** Closes the saga's row, and wakes a terminate that waits for it. */
export async function closeSaga(deps: SagaDeps, saga: SagaRef, result: SagaResult): Promise<SagaEnd> {
  const closed = await deps.database((db) => endSaga(db, saga.id, result, new Date(deps.now())));
  if (closed) log("info", "saga ended", { saga: saga.id, node: saga.nodeId, status: result.status, code: result.code });
  if (saga.workflow === "provision-node") await deps.wake("terminate-node", saga.nodeId, SAGA_ENDED_EVENT);
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
