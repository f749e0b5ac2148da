import { WorkflowEntrypoint, type WorkflowEvent, type WorkflowStep } from "cloudflare:workers";
import type { PartialFailure } from "../../db/sagas.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { FIRST_GENERATION } from "../../domain/saga/ids.ts";
import type { SagaEnd } from "../../domain/saga/repair.ts";
import { generateNodeToken } from "./activities/agent.ts";
import { destroyHosts, runTerraform, verifyCleanup } from "./activities/hosts.ts";
import {
  captureChainGeneratedKeys,
  markInputsApplied,
  prepareUserProvidedKeys,
  validateProvisionInputs,
} from "./activities/inputs.ts";
import { deleteNodeKeys, generateNodeKeys } from "./activities/keys.ts";
import { becomeFailed, becomeSyncing } from "./activities/nodes.ts";
import { closeSaga, readVerdict } from "./activities/saga-row.ts";
import { type AgentSaga, type SagaDeps, type SagaRef, sagaDeps } from "./deps.ts";
import { SagaFailure } from "./failures.ts";
import { type SagaParams, sagaParamsSchema } from "./params.ts";
import { bringKeys, configure, start, waitForAgent } from "./saga-commands.ts";
import { SagaSteps } from "./steps.ts";

/** Source 000, "Provision Node Workflow": order and compensation; what each step does is in activities/. */
export class ProvisionNode extends WorkflowEntrypoint<Env, SagaParams> {
  override async run(event: Readonly<WorkflowEvent<SagaParams>>, step: WorkflowStep): Promise<{ status: SagaEnd }> {
    const { nodeId } = sagaParamsSchema.parse(event.payload);
    const generation = FIRST_GENERATION;
    const saga: AgentSaga = { id: event.instanceId, workflow: "provision-node", nodeId, generation };
    const deps = sagaDeps(this.env);
    const steps = new SagaSteps(step, saga, deps);
    try {
      await provision(steps, deps, saga);
    } catch (thrown) {
      // Anything but a failed step is the platform's, and must reach it: the engine runs the instance again.
      if (!(thrown instanceof SagaFailure)) throw thrown;
      return compensate(steps, deps, saga, thrown);
    }
    await end(steps, deps, saga, { status: "succeeded", code: null, message: null, partialFailures: [] });
    return { status: "succeeded" };
  }
}

async function provision(steps: SagaSteps, deps: SagaDeps, saga: AgentSaga): Promise<void> {
  await steps.must("ValidateProvisionInputs", () => validateProvisionInputs(deps, saga));
  await steps.must("GenerateNodeKeys", () => generateNodeKeys(deps, saga));
  await steps.must("PrepareUserProvidedKeys", prepareUserProvidedKeys);
  await steps.must("GenerateNodeToken", () => generateNodeToken(deps, saga));
  await steps.must("RunTerraform", () => runTerraform(deps, saga));
  const { agentReadyMs } = DEFAULTS.provisioning;
  await waitForAgent(steps, deps, saga, { roundMs: agentReadyMs, limitMs: agentReadyMs });
  await configure(steps, deps, saga);
  await steps.must("CaptureChainGeneratedKeys", captureChainGeneratedKeys);
  await bringKeys(steps, deps, saga);
  await start(steps, deps, saga);
  await steps.must("MarkInputsApplied", markInputsApplied);
  await steps.must("UpdateNodeState", () => becomeSyncing(deps, saga));
}

/**
 * On any failure: the host is destroyed, keys are deleted, and the node has failed. A node that somebody else is ending
 * loses its host all the same, and keeps its state. Only what could not be taken away is left to the sweeps.
 */
async function compensate(
  steps: SagaSteps,
  deps: SagaDeps,
  saga: SagaRef,
  cause: SagaFailure,
): Promise<{ status: SagaEnd }> {
  const { code, message } = cause.failure;
  const verdict = await steps.quiet("ReadVerdict", () => readVerdict(deps, saga, cause));
  if (verdict === "succeeded") {
    await end(steps, deps, saga, { status: "succeeded", code: null, message: null, partialFailures: [] });
    return { status: "succeeded" };
  }
  const partialFailures: PartialFailure[] = [];
  const destroyed = await steps.attempt("DestroyNode", () => destroyNode(deps, saga));
  if (!destroyed.ok) {
    partialFailures.push({ step: "DestroyNode", code: destroyed.code, message: destroyed.message });
  }
  const deleted = await steps.attempt("DeleteKeys", () => deleteNodeKeys(deps, saga));
  if (!deleted.ok) partialFailures.push({ step: "DeleteKeys", code: deleted.code, message: deleted.message });
  const status: SagaEnd = verdict === "superseded" ? "superseded" : "failed";
  if (status === "failed") {
    // A node that nobody ends would be provisioning for ever: if this cannot be done, the sweep runs the saga again.
    await steps.must("UpdateNodeStateFailed", () => becomeFailed(deps, saga, `${code}: ${message}`), "criticalStep");
  }
  await end(steps, deps, saga, { status, code, message, partialFailures });
  return { status };
}

async function destroyNode(deps: SagaDeps, saga: SagaRef) {
  const report = await destroyHosts(deps, saga);
  await verifyCleanup(deps, saga);
  return report;
}

async function end(
  steps: SagaSteps,
  deps: SagaDeps,
  saga: SagaRef,
  result: Parameters<typeof closeSaga>[2],
): Promise<void> {
  await steps.quiet("EndSaga", () => closeSaga(deps, saga, result));
}
