import { OrreryError } from "../../../domain/errors.ts";
import { agentReadyEvent, FIRST_GENERATION } from "../../../domain/saga/ids.ts";
import type { SagaDeps, SagaRef } from "../deps.ts";
import { pending, type StepReport, succeeded } from "../step-record.ts";
import { requireProvisioning, viewNode } from "./nodes.ts";

/**
 * The token is a function of the master secret, node and generation; what is made here is the node's readiness to take
 * it. It comes before the host, so that an agent which is quick is not a stranger.
 */
export async function generateNodeToken(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  requireProvisioning((await viewNode(deps, saga)).state);
  await deps.node(saga.nodeId, (node) =>
    node.expectInstallation(FIRST_GENERATION, {
      workflow: saga.workflow,
      instanceId: saga.id,
      eventType: agentReadyEvent(FIRST_GENERATION),
    }),
  );
  return succeeded(`for generation ${FIRST_GENERATION}`);
}

/** An agent that has been here once is ready: commands wait for it if it is away again. */
export async function lookForAgent(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  const { state, installations } = await viewNode(deps, saga);
  requireProvisioning(state);
  const agent = installations.find(({ generation }) => generation === FIRST_GENERATION);
  if (agent === undefined || agent.installationId === null) return pending("no agent has connected yet");
  return succeeded(agent.agentVersion === null ? "the agent connected" : `agent ${agent.agentVersion} connected`);
}

/** @throws agent_not_ready */
export async function requireAgent(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  const report = await lookForAgent(deps, saga);
  if (report.status !== "pending") return report;
  throw new OrreryError("agent_not_ready", "No agent connected within the time that the saga waits.");
}
