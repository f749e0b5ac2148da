import { describe, it } from "vitest";
import type { ProvisioningInput } from "../../../domain/chain/profile.ts";
import { toErrorData } from "../../../domain/errors.ts";
import { requireSupportedInputs } from "../../../domain/saga/inputs.ts";

const common = { type: "secret", required: true, phase: "pre_provision" } as const;
const generated: ProvisioningInput = {
  ...common,
  name: "node_key",
  source: "generated",
  key_type: "ed25519",
  file: { path: "keys/node-key", mode: "0600", encoding: "hex" },
};
const captured: ProvisioningInput = { ...common, name: "chain_key", source: "chain_generated" };
const given: ProvisioningInput = { ...common, name: "mnemonic", source: "user_provided" };
const text = (required: boolean): ProvisioningInput => ({
  name: "validator_address",
  type: "text",
  required,
  phase: "pre_provision",
});

describe("what a chain asks for", () => {
  it("lets a chain through that needs nothing but keys that the platform makes", ({ expect }) => {
    expect(() => requireSupportedInputs({ provisioning_inputs: [] })).not.toThrow();
    expect(() => requireSupportedInputs({ provisioning_inputs: [text(false), generated] })).not.toThrow();
  });

  it("refuses a chain that declares a key from elsewhere or a required input, by name", ({ expect }) => {
    let thrown: unknown = null;
    try {
      requireSupportedInputs({ provisioning_inputs: [generated, captured, given, text(true)] });
    } catch (error) {
      thrown = error;
    }
    expect(toErrorData(thrown)).toMatchObject({
      code: "inputs_unsupported",
      details: { inputs: ["chain_key", "mnemonic", "validator_address"] },
    });
  });
});
