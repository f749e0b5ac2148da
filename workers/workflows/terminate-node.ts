import { WorkflowEntrypoint, type WorkflowEvent, type WorkflowStep } from "cloudflare:workers";
import type { PartialFailure } from "../../db/sagas.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { commandEndedEvent, SAGA_ENDED_EVENT } from "../../domain/saga/ids.ts";
import type { SagaEnd } from "../../domain/saga/repair.ts";
import type { TerminateStep } from "../../domain/saga/steps.ts";
import { abandonCommand, commandResult, sendStop } from "./activities/commands.ts";
import { destroyHosts, verifyCleanup } from "./activities/hosts.ts";
import { deleteNodeKeys } from "./activities/keys.ts";
import { becomeTerminated, becomeTerminating, getNodeDetails } from "./activities/nodes.ts";
import { closeSaga, lookForOtherSagas } from "./activities/saga-row.ts";
import { type SagaDeps, type SagaRef, sagaDeps } from "./deps.ts";
import { type SagaParams, sagaParamsSchema } from "./params.ts";
import type { StepOutcome } from "./step-record.ts";
import { SagaSteps } from "./steps.ts";

/**
 * Source 000, "Terminate Node Workflow": every step is tried, what fails is collected, and only the final state must be
 * reached; whatever a provider did not let go stays marked for the hosts sweep.
 */
export class TerminateNode extends WorkflowEntrypoint<Env, SagaParams> {
  override async run(event: Readonly<WorkflowEvent<SagaParams>>, step: WorkflowStep): Promise<{ status: SagaEnd }> {
    const { nodeId } = sagaParamsSchema.parse(event.payload);
    const saga: SagaRef = { id: event.instanceId, workflow: "terminate-node", nodeId };
    const deps = sagaDeps(this.env);
    const steps = new SagaSteps(step, saga, deps);
    const failures = new PartialFailures();

    failures.add("GetNodeDetails", await steps.attempt("GetNodeDetails", () => getNodeDetails(deps, saga)));
    failures.add(
      "UpdateNodeStateTerminating",
      await steps.attempt("UpdateNodeStateTerminating", () => becomeTerminating(deps, saga)),
    );
    await waitForOtherSagas(steps, deps, saga, failures);
    failures.add("SendStop", await stop(steps, deps, saga));
    failures.add("DeleteKeys", await steps.attempt("DeleteKeys", () => deleteNodeKeys(deps, saga)));
    failures.add("DestroyInfra", await steps.attempt("DestroyInfra", () => destroyHosts(deps, saga)));
    failures.add("VerifyCleanup", await steps.attempt("VerifyCleanup", () => verifyCleanup(deps, saga)));
    // Failing here fails the instance; the sweep starts it again.
    await steps.must("UpdateNodeState", () => becomeTerminated(deps, saga), "criticalStep");
    await steps.quiet("EndSaga", () =>
      closeSaga(deps, saga, { status: "succeeded", code: null, message: null, partialFailures: failures.all }),
    );
    return { status: "succeeded" };
  }
}

/** The state has changed, which makes another saga of the node unwind; what it still holds must not be pulled from under it. */
async function waitForOtherSagas(
  steps: SagaSteps,
  deps: SagaDeps,
  saga: SagaRef,
  failures: PartialFailures,
): Promise<void> {
  const { otherSagaRoundMs, otherSagaWaitMs } = DEFAULTS.saga;
  for (let waitedMs = 0; waitedMs < otherSagaWaitMs; waitedMs += otherSagaRoundMs) {
    const others = await steps.quiet("WaitForOtherSagas", () => lookForOtherSagas(deps, saga));
    if (others === "none") return;
    await steps.waitForEvent("WaitForOtherSagas event", SAGA_ENDED_EVENT, otherSagaRoundMs);
  }
  failures.add("UpdateNodeStateTerminating", {
    ok: false,
    code: "saga_superseded",
    message: "Another saga of the node did not unwind in time.",
  });
}

async function stop(steps: SagaSteps, deps: SagaDeps, saga: SagaRef): Promise<StepOutcome> {
  const sent = await steps.attempt("SendStop", () => sendStop(deps, saga));
  if (!sent.ok || sent.status !== "pending" || sent.commandId === null) return sent;
  const { commandId } = sent;
  return steps.settle("SendStop", {
    eventType: commandEndedEvent(commandId),
    roundMs: DEFAULTS.saga.stopWaitMs,
    limitMs: DEFAULTS.saga.stopWaitMs,
    look: () => commandResult(deps, saga, commandId),
    lastLook: () => abandonCommand(deps, saga, commandId),
  });
}

class PartialFailures {
  readonly all: PartialFailure[] = [];

  add(step: TerminateStep, outcome: StepOutcome): void {
    if (!outcome.ok) this.all.push({ step, code: outcome.code, message: outcome.message });
  }
}
