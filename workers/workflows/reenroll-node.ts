import { WorkflowEntrypoint, type WorkflowEvent, type WorkflowStep } from "cloudflare:workers";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";
import { reenrolledGeneration } from "../../domain/saga/ids.ts";
import type { SagaEnd } from "../../domain/saga/repair.ts";
import { closeSaga, readReenrolmentVerdict } from "./activities/saga-row.ts";
import { type AgentSaga, type SagaDeps, sagaDeps } from "./deps.ts";
import { SagaFailure } from "./failures.ts";
import { type SagaParams, sagaParamsSchema } from "./params.ts";
import { bringKeys, configure, start, waitForAgent } from "./saga-commands.ts";
import { SagaSteps } from "./steps.ts";

/**
 * Brings a node's next installation to work, whose token was handed to an operator: the disk was rebuilt, so everything
 * that the provision put on it comes again. Nothing is undone when it fails: the node and its host stay as they are.
 */
export class ReenrollNode extends WorkflowEntrypoint<Env, SagaParams> {
  override async run(event: Readonly<WorkflowEvent<SagaParams>>, step: WorkflowStep): Promise<{ status: SagaEnd }> {
    const { nodeId } = sagaParamsSchema.parse(event.payload);
    const id = event.instanceId;
    const saga: AgentSaga = { id, workflow: "reenroll-node", nodeId, generation: generationOf(id) };
    const deps = sagaDeps(this.env);
    const steps = new SagaSteps(step, saga, deps);
    try {
      await reenroll(steps, deps, saga);
    } catch (thrown) {
      if (!(thrown instanceof SagaFailure)) throw thrown;
      return giveUp(steps, deps, saga, thrown);
    }
    await steps.quiet("EndSaga", () =>
      closeSaga(deps, saga, { status: "succeeded", code: null, message: null, partialFailures: [] }),
    );
    return { status: "succeeded" };
  }
}

async function reenroll(steps: SagaSteps, deps: SagaDeps, saga: AgentSaga): Promise<void> {
  await waitForAgent(steps, deps, saga, {
    roundMs: DEFAULTS.provisioning.rebuiltRoundMs,
    limitMs: DEFAULTS.provisioning.rebuiltAgentMs,
  });
  await configure(steps, deps, saga);
  await bringKeys(steps, deps, saga);
  await start(steps, deps, saga);
}

async function giveUp(
  steps: SagaSteps,
  deps: SagaDeps,
  saga: AgentSaga,
  cause: SagaFailure,
): Promise<{ status: SagaEnd }> {
  const { code, message } = cause.failure;
  const verdict = await steps.quiet("ReadVerdict", () => readReenrolmentVerdict(deps, saga));
  const status: SagaEnd = verdict === "superseded" ? "superseded" : "failed";
  await steps.quiet("EndSaga", () => closeSaga(deps, saga, { status, code, message, partialFailures: [] }));
  return { status };
}

function generationOf(id: string): number {
  const generation = reenrolledGeneration(id);
  if (generation === null) throw new OrreryError("saga_not_found", `${id} is no re-enrolment.`);
  return generation;
}
