import { describe, it } from "vitest";
import type { ProvisioningInput } from "../../../domain/chain/profile.ts";
import { toErrorData } from "../../../domain/errors.ts";
import { requireNoInputs } from "../../../domain/saga/inputs.ts";

const key: ProvisioningInput = {
  name: "node_key",
  type: "secret",
  source: "generated",
  required: true,
  phase: "pre_provision",
};
const text = (required: boolean): ProvisioningInput => ({
  name: "validator_address",
  type: "text",
  required,
  phase: "pre_provision",
});

describe("what a chain asks for", () => {
  it("lets a chain through that needs nothing", ({ expect }) => {
    expect(() => requireNoInputs({ provisioning_inputs: [] })).not.toThrow();
    expect(() => requireNoInputs({ provisioning_inputs: [text(false)] })).not.toThrow();
  });

  it("refuses a chain that declares a key or a required input, by name", ({ expect }) => {
    let thrown: unknown = null;
    try {
      requireNoInputs({ provisioning_inputs: [key, text(true)] });
    } catch (error) {
      thrown = error;
    }
    expect(toErrorData(thrown)).toMatchObject({
      code: "inputs_unsupported",
      details: { inputs: ["node_key", "validator_address"] },
    });
  });
});
