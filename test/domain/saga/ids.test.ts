import fc from "fast-check";
import { describe, it } from "vitest";
import {
  hostTag,
  parseHostTag,
  reenrolledGeneration,
  reenrolmentId,
  SAGA_WORKFLOWS,
  sagaId,
} from "../../../domain/saga/ids.ts";
import { SAGA_STEPS, stepPosition } from "../../../domain/saga/steps.ts";

describe("ids of sagas and tags of hosts", () => {
  it("a tag names its node and generation, and nothing else is one of our tags", ({ expect }) => {
    fc.assert(
      fc.property(fc.uuid(), fc.integer({ min: 1, max: 999_999_999 }), fc.string(), (nodeId, generation, noise) => {
        expect(parseHostTag(hostTag(nodeId, generation))).toEqual({ nodeId, generation });
        expect(parseHostTag(noise)).toBeNull();
        expect(parseHostTag(`${hostTag(nodeId, generation)}${noise}x`)).toBeNull();
      }),
    );
    expect(parseHostTag("orrery-0190f0f0-0000-7000-8000-000000000000-g0")).toBeNull();
  });

  it("an instance's id is one that the engine takes", ({ expect }) => {
    const nodeId = "0190f0f0-0000-7000-8000-000000000000";
    const ids = [
      sagaId("provision-node", nodeId),
      sagaId("terminate-node", nodeId),
      reenrolmentId(nodeId, 999_999_999),
    ];
    for (const id of ids) expect(id).toMatch(/^[a-zA-Z0-9_][a-zA-Z0-9-_]{0,99}$/);
    expect(new Set(ids).size).toBe(SAGA_WORKFLOWS.length);
  });

  it("a re-enrolment's id names its generation, and no other saga's id does", ({ expect }) => {
    fc.assert(
      fc.property(fc.uuid(), fc.integer({ min: 1, max: 999_999_999 }), (nodeId, generation) => {
        expect(reenrolledGeneration(reenrolmentId(nodeId, generation))).toBe(generation);
        expect(reenrolledGeneration(sagaId("provision-node", nodeId))).toBeNull();
        expect(reenrolledGeneration(sagaId("terminate-node", nodeId))).toBeNull();
        expect(reenrolledGeneration(`${reenrolmentId(nodeId, generation)}x`)).toBeNull();
      }),
    );
  });

  it("steps stand in the source's order", ({ expect }) => {
    expect(SAGA_STEPS["provision-node"].slice(0, 13)).toEqual([
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
    ]);
    expect(stepPosition("terminate-node", "UpdateNodeState")).toBe(6);
  });
});
