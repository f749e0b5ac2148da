import { DEFAULTS } from "../../domain/defaults.ts";
import type { ErrorCode } from "../../domain/errors.ts";
import { agentReadyEvent, commandEndedEvent } from "../../domain/saga/ids.ts";
import type { SagaStepName } from "../../domain/saga/steps.ts";
import { lookForAgent, requireAgent } from "./activities/agent.ts";
import { abandonCommand, commandResult, sendConfigureCommand, sendStart } from "./activities/commands.ts";
import { sendInjectKeys } from "./activities/keys.ts";
import type { AgentSaga, SagaDeps } from "./deps.ts";
import { SagaFailure } from "./failures.ts";
import type { StepOutcome, StepReport } from "./step-record.ts";
import type { SagaSteps } from "./steps.ts";

/** What sagas have in common that bring an agent to work: waiting for it, then one command after the other. */

export async function waitForAgent(
  steps: SagaSteps,
  deps: SagaDeps,
  saga: AgentSaga,
  wait: { readonly roundMs: number; readonly limitMs: number },
): Promise<void> {
  await steps.mustSettle("WaitForAgentReady", {
    ...wait,
    eventType: agentReadyEvent(saga.generation),
    look: () => lookForAgent(deps, saga),
    lastLook: () => requireAgent(deps, saga),
  });
}

export async function configure(steps: SagaSteps, deps: SagaDeps, saga: AgentSaga): Promise<void> {
  await runCommand(steps, deps, saga, {
    sendStep: "SendConfigureCommand",
    waitStep: "WaitForCommandCompletion",
    send: (round) => sendConfigureCommand(deps, saga, round),
  });
}

export async function bringKeys(steps: SagaSteps, deps: SagaDeps, saga: AgentSaga): Promise<void> {
  await runCommand(steps, deps, saga, {
    sendStep: "InjectKeys",
    waitStep: "InjectKeys",
    send: (round) => sendInjectKeys(deps, saga, round),
  });
}

export async function start(steps: SagaSteps, deps: SagaDeps, saga: AgentSaga): Promise<void> {
  await runCommand(steps, deps, saga, {
    sendStep: "StartNode",
    waitStep: "StartNode",
    send: (round) => sendStart(deps, saga, round),
  });
}

interface SagaCommand {
  readonly sendStep: SagaStepName;
  readonly waitStep: SagaStepName;
  /** Each round sends a command of its own; asked again within a round it finds the first. */
  send(round: number): Promise<StepReport>;
}

/**
 * Sends a command and waits for its end. One that was cut off, because the agent or its host restarted, is sent anew:
 * all of them may be repeated, and a restart in the middle is no reason to take a customer's host away.
 */
async function runCommand(steps: SagaSteps, deps: SagaDeps, saga: AgentSaga, command: SagaCommand): Promise<void> {
  for (let round = 1; ; round += 1) {
    const { status, commandId } = await steps.must(command.sendStep, async () => {
      // A command goes to whichever installation is the node's; only ours is meant.
      await requireAgent(deps, saga);
      return command.send(round);
    });
    if (status === "skipped") return;
    const outcome = await settleCommand(steps, deps, saga, command.waitStep, commandId);
    if (outcome.ok) return;
    const isLastRound = round >= DEFAULTS.provisioning.commandRounds;
    if (isLastRound || !isCutOff(outcome.code)) throw new SagaFailure(command.waitStep, outcome);
  }
}

async function settleCommand(
  steps: SagaSteps,
  deps: SagaDeps,
  saga: AgentSaga,
  step: SagaStepName,
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
