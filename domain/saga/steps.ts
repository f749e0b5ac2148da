import type { SagaWorkflow } from "./ids.ts";

/**
 * The steps of each saga in the source's order (000, "Temporal Workflow Execution"), then those of compensation. A
 * re-enrolment repeats those of the provision that a rebuilt disk has lost.
 */
export const SAGA_STEPS = {
  "provision-node": [
    "ValidateProvisionInputs",
    "GenerateNodeKeys",
    "PrepareUserProvidedKeys",
    "GenerateNodeToken",
    "RunTerraform",
    "WaitForAgentReady",
    "SendConfigureCommand",
    "WaitForCommandCompletion",
    "CaptureChainGeneratedKeys",
    "InjectKeys",
    "StartNode",
    "MarkInputsApplied",
    "UpdateNodeState",
    "DestroyNode",
    "DeleteKeys",
    "UpdateNodeStateFailed",
  ],
  "terminate-node": [
    "GetNodeDetails",
    "UpdateNodeStateTerminating",
    "SendStop",
    "DeleteKeys",
    "DestroyInfra",
    "VerifyCleanup",
    "UpdateNodeState",
  ],
  "reenroll-node": ["WaitForAgentReady", "SendConfigureCommand", "WaitForCommandCompletion", "InjectKeys", "StartNode"],
} as const satisfies Record<SagaWorkflow, readonly string[]>;

export type ProvisionStep = (typeof SAGA_STEPS)["provision-node"][number];
export type TerminateStep = (typeof SAGA_STEPS)["terminate-node"][number];
export type ReenrollStep = (typeof SAGA_STEPS)["reenroll-node"][number];
export type SagaStepName = ProvisionStep | TerminateStep | ReenrollStep;

/** Where a step stands in its saga, from 0. */
export function stepPosition(workflow: SagaWorkflow, name: SagaStepName): number {
  const names: readonly string[] = SAGA_STEPS[workflow];
  return names.indexOf(name);
}
