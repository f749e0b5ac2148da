import { hostsOfNode } from "../../../db/hosts.ts";
import { findNodeForSaga, type SagaNode } from "../../../db/sagas.ts";
import { errorCodeOf, OrreryError } from "../../../domain/errors.ts";
import type { NodeBirth, NodeState, NodeView } from "../../../domain/node/node.ts";
import { isTerminal } from "../../../domain/node/transition.ts";
import type { SagaDeps, SagaRef } from "../deps.ts";
import { type StepReport, succeeded } from "../step-record.ts";

/** @throws node_not_found */
export async function loadNode(deps: SagaDeps, saga: SagaRef): Promise<SagaNode> {
  const node = await deps.database((db) => findNodeForSaga(db, deps.config.TENANT, saga.nodeId));
  if (node === null) throw new OrreryError("node_not_found", `There is no node ${saga.nodeId}.`);
  return node;
}

/** The node as it is. One whose object was never made is made now, so that it can be ended like any other. */
export async function viewNode(deps: SagaDeps, saga: SagaRef): Promise<NodeView> {
  try {
    return await deps.node(saga.nodeId, (node) => node.view());
  } catch (thrown) {
    if (errorCodeOf(thrown) !== "node_not_found") throw thrown;
  }
  const subject = await loadNode(deps, saga);
  return deps.node(saga.nodeId, (node) => node.initialise(birthOf(subject)));
}

/**
 * Whoever else moved the node has taken over: a saga goes on only while the node is its to work on.
 * @throws node_terminating, node_ended, and for a provision invalid_transition
 */
export function requireOurs({ workflow }: SagaRef, state: NodeState): void {
  if (workflow === "provision-node") requireProvisioning(state);
  else requireLiving(state);
}

/** @throws node_terminating, node_ended */
function requireLiving(state: NodeState): void {
  if (state === "terminating") throw new OrreryError("node_terminating", "The node is being terminated.");
  if (isTerminal(state)) throw new OrreryError("node_ended", `The node has ended as ${state}.`);
}

/** @throws node_terminating, node_ended, invalid_transition */
export function requireProvisioning(state: NodeState): void {
  if (state === "provisioning") return;
  requireLiving(state);
  throw new OrreryError("invalid_transition", `The node is ${state}; it has been provisioned already.`);
}

export function birthOf({ node }: SagaNode): NodeBirth {
  return {
    nodeId: node.id,
    tenant: node.tenant,
    subscriptionId: node.subscriptionId,
    userId: node.userId,
    chain: node.chain,
    nodeType: node.nodeType,
    chainContentHash: node.chainContentHash,
    provider: node.provider,
    region: node.region,
    createdAt: node.createdAt.getTime(),
  };
}

/** Hands a provisioned node over to its own evaluation. Once it has left `provisioning`, that was done before. */
export async function becomeSyncing(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  const { state } = await viewNode(deps, saga);
  if (state === "syncing" || state === "healthy" || state === "degraded" || state === "down") {
    return succeeded(`the node is ${state}`);
  }
  requireProvisioning(state);
  await deps.node(saga.nodeId, (node) => node.transition("syncing", "provision_saga", null));
  return succeeded("the node is syncing");
}

/**
 * Ends a node that could not be provisioned, unless somebody has moved it meanwhile: the object compares, so that a
 * terminate which came first is not overruled.
 */
export async function becomeFailed(deps: SagaDeps, saga: SagaRef, reason: string): Promise<StepReport> {
  const { state } = await viewNode(deps, saga);
  if (isTerminal(state) || state === "terminating") return succeeded(`the node is ${state}`);
  if (state === "provisioning") {
    await deps.node(saga.nodeId, (node) => node.transition("failed", "compensation", reason));
  } else {
    await deps.node(saga.nodeId, (node) => node.forceTransition("failed", "compensation", reason, `saga:${saga.id}`));
  }
  return succeeded("the node has failed");
}

/** Takes the node from whatever else it was about; a node that has ended is as good. */
export async function becomeTerminating(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  const { state } = await viewNode(deps, saga);
  if (isTerminal(state)) return succeeded(`the node has ended as ${state}`);
  await deps.node(saga.nodeId, (node) => node.transition("terminating", "terminate_saga", null));
  return succeeded("the node is terminating");
}

export async function becomeTerminated(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  await becomeTerminating(deps, saga);
  const { state } = await viewNode(deps, saga);
  if (isTerminal(state)) return succeeded(`the node has ended as ${state}`);
  await deps.node(saga.nodeId, (node) => node.transition("terminated", "terminate_saga", null));
  return succeeded("the node is terminated");
}

export async function getNodeDetails(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  const { node } = await loadNode(deps, saga);
  const hosts = await deps.database((db) => hostsOfNode(db, node.id));
  const live = hosts.filter(({ status }) => status !== "destroyed").length;
  return succeeded(`${node.chain} ${node.nodeType} at ${node.provider}, ${live === 1 ? "one host" : `${live} hosts`}`);
}
