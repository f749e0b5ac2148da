import { WorkflowEntrypoint, type WorkflowEvent, type WorkflowStep } from "cloudflare:workers";
import type { PartialFailure } from "../../db/sagas.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import type { ErrorCode } from "../../domain/errors.ts";
import { agentReadyEvent, commandEndedEvent, FIRST_GENERATION } from "../../domain/saga/ids.ts";
import type { SagaEnd } from "../../domain/saga/repair.ts";
import type { ProvisionStep } from "../../domain/saga/steps.ts";
import { generateNodeToken, lookForAgent, requireAgent } from "./activities/agent.ts";
import { abandonCommand, commandResult, sendConfigureCommand, sendStart } from "./activities/commands.ts";
import { destroyHosts, runTerraform, verifyCleanup } from "./activities/hosts.ts";
import {
  captureChainGeneratedKeys,
  deleteKeys,
  generateNodeKeys,
  injectKeys,
  markInputsApplied,
  prepareUserProvidedKeys,
  validateProvisionInputs,
} from "./activities/inputs.ts";
import { becomeFailed, becomeSyncing } from "./activities/nodes.ts";
import { closeSaga, readVerdict } from "./activities/saga-row.ts";
import { type SagaDeps, type SagaRef, sagaDeps } from "./deps.ts";
import { SagaFailure } from "./failures.ts";
import { type SagaParams, sagaParamsSchema } from "./params.ts";
import type { StepOutcome, StepReport } from "./step-record.ts";
import { SagaSteps } from "./steps.ts";

/** Source 000, "Provision Node Workflow": order and compensation; what each step does is in activities/. */
export class ProvisionNode extends WorkflowEntrypoint<Env, SagaParams> {
  override async run(event: Readonly<WorkflowEvent<SagaParams>>, step: WorkflowStep): Promise<{ status: SagaEnd }> {
    const { nodeId } = sagaParamsSchema.parse(event.payload);
    const saga: SagaRef = { id: event.instanceId, workflow: "provision-node", nodeId };
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

async function provision(steps: SagaSteps, deps: SagaDeps, saga: SagaRef): Promise<void> {
  await steps.must("ValidateProvisionInputs", () => validateProvisionInputs(deps, saga));
  await steps.must("GenerateNodeKeys", generateNodeKeys);
  await steps.must("PrepareUserProvidedKeys", prepareUserProvidedKeys);
  await steps.must("GenerateNodeToken", () => generateNodeToken(deps, saga));
  await steps.must("RunTerraform", () => runTerraform(deps, saga));
  await steps.mustSettle("WaitForAgentReady", {
    eventType: agentReadyEvent(FIRST_GENERATION),
    roundMs: DEFAULTS.provisioning.agentReadyMs,
    limitMs: DEFAULTS.provisioning.agentReadyMs,
    look: () => lookForAgent(deps, saga),
    lastLook: () => requireAgent(deps, saga),
  });
  await runCommand(steps, deps, saga, {
    sendStep: "SendConfigureCommand",
    waitStep: "WaitForCommandCompletion",
    send: (round) => sendConfigureCommand(deps, saga, round),
  });
  await steps.must("CaptureChainGeneratedKeys", captureChainGeneratedKeys);
  await steps.must("InjectKeys", injectKeys);
  await runCommand(steps, deps, saga, {
    sendStep: "StartNode",
    waitStep: "StartNode",
    send: (round) => sendStart(deps, saga, round),
  });
  await steps.must("MarkInputsApplied", markInputsApplied);
  await steps.must("UpdateNodeState", () => becomeSyncing(deps, saga));
}

interface SagaCommand {
  readonly sendStep: ProvisionStep;
  readonly waitStep: ProvisionStep;
  /** Each round sends a command of its own; asked again within a round it finds the first. */
  send(round: number): Promise<StepReport>;
}

/**
 * Sends a command and waits for its end. One that was cut off, because the agent or its host restarted, is sent anew:
 * CONFIGURE and START may be repeated, and a restart in the middle is no reason to take a customer's host away.
 */
async function runCommand(steps: SagaSteps, deps: SagaDeps, saga: SagaRef, command: SagaCommand): Promise<void> {
  for (let round = 1; ; round += 1) {
    const { commandId } = await steps.must(command.sendStep, () => command.send(round));
    const outcome = await settleCommand(steps, deps, saga, command.waitStep, commandId);
    if (outcome.ok) return;
    const isLastRound = round >= DEFAULTS.provisioning.commandRounds;
    if (isLastRound || !isCutOff(outcome.code)) throw new SagaFailure(command.waitStep, outcome);
  }
}

async function settleCommand(
  steps: SagaSteps,
  deps: SagaDeps,
  saga: SagaRef,
  step: ProvisionStep,
  commandId: string | null,
): Promise<StepOutcome> {
  if (commandId === null) throw new SagaFailure(step, { code: "internal", message: "No command was sent." });
  return steps.settle(step, {
    eventType: commandEndedEvent(commandId),
    roundMs: DEFAULTS.saga.waitRoundMs,
    limitMs: DEFAULTS.provisioning.commandWaitMs,
    look: () => commandResult(deps, saga, commandId),
    lastLook: () => abandonCommand(deps, saga, commandId),
  });
}

function isCutOff(code: ErrorCode): boolean {
  return code === "command_interrupted" || code === "command_lost";
}

/**
 * On any failure: the host is destroyed, keys are deleted, and the node has failed. A node that somebody else is ending
 * loses its host all the same, and keeps its state. Only a host that the provider does not let go is left to the sweep.
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
  await steps.attempt("DeleteKeys", deleteKeys);
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
