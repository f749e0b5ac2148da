import type { ChainProfile, ProvisioningInput } from "../chain/profile.ts";
import { OrreryError } from "../errors.ts";

/**
 * A node whose chain needs what nobody can give must not be built half. Keys that the platform makes can be given;
 * keys from elsewhere and required inputs of a user cannot.
 * @throws inputs_unsupported naming what the chain declares
 */
export function requireSupportedInputs({ provisioning_inputs }: Pick<ChainProfile, "provisioning_inputs">): void {
  const names = provisioning_inputs.filter(isUnsupported).map(({ name }) => name);
  if (names.length === 0) return;
  throw new OrreryError(
    "inputs_unsupported",
    `The chain declares keys or required inputs that cannot be given yet: ${names.join(", ")}.`,
    { inputs: names },
  );
}

function isUnsupported(input: ProvisioningInput): boolean {
  return input.type === "secret" ? input.source !== "generated" : input.required;
}
