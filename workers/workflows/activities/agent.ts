import { OrreryError } from "../../../domain/errors.ts";
import { agentReadyEvent } from "../../../domain/saga/ids.ts";
import type { AgentSaga, SagaDeps } from "../deps.ts";
import { pending, type StepReport, succeeded } from "../step-record.ts";
import { requireOurs, requireProvisioning, viewNode } from "./nodes.ts";

/**
 * The token is a function of the master secret, node and generation; what is made here is the node's readiness to take
 * it. It comes before the host, so that an agent which is quick is not a stranger.
 */
export async function generateNodeToken(deps: SagaDeps, saga: AgentSaga): Promise<StepReport> {
  const { nodeId, generation } = saga;
  requireProvisioning((await viewNode(deps, saga)).state);
  await deps.node(nodeId, (node) =>
    node.expectInstallation(generation, {
      workflow: saga.workflow,
      instanceId: saga.id,
      eventType: agentReadyEvent(generation),
    }),
  );
  return succeeded(`for generation ${generation}`);
}

/** An agent that has been here once is ready: commands wait for it if it is away again. */
export async function lookForAgent(deps: SagaDeps, saga: AgentSaga): Promise<StepReport> {
  const { state, installations } = await viewNode(deps, saga);
  requireOurs(saga, state);
  const agent = installations.find(({ generation }) => generation === saga.generation);
  if (agent?.status === "revoked") throw new OrreryError("saga_superseded", "Another installation was asked for.");
  // Enrolling alone is no session yet.
  if (agent === undefined || agent.sessionEpoch === 0) return pending("no agent has connected yet");
  return succeeded(agent.agentVersion === null ? "the agent connected" : `agent ${agent.agentVersion} connected`);
}

/** @throws agent_not_ready */
export async function requireAgent(deps: SagaDeps, saga: AgentSaga): Promise<StepReport> {
  const report = await lookForAgent(deps, saga);
  if (report.status !== "pending") return report;
  throw new OrreryError("agent_not_ready", "No agent connected within the time that the saga waits.");
}
