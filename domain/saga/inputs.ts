import type { ChainProfile } from "../chain/profile.ts";
import { OrreryError } from "../errors.ts";

/** What a chain asks for before a node of it can run. */
export interface DeclaredInputs {
  readonly keys: readonly string[];
  readonly required: readonly string[];
}

function declaredInputs(profile: Pick<ChainProfile, "provisioning_inputs">): DeclaredInputs {
  const inputs = profile.provisioning_inputs;
  return {
    keys: inputs.filter(({ type }) => type === "secret").map(({ name }) => name),
    required: inputs.filter(({ type, required }) => type !== "secret" && required).map(({ name }) => name),
  };
}

/**
 * A node whose chain needs what nobody can give must not be built half: the steps for keys hold only for chains without.
 * @throws inputs_unsupported naming what the chain declares
 */
export function requireNoInputs(profile: Pick<ChainProfile, "provisioning_inputs">): void {
  const { keys, required } = declaredInputs(profile);
  const names = [...keys, ...required];
  if (names.length === 0) return;
  throw new OrreryError(
    "inputs_unsupported",
    `The chain declares keys or required inputs that cannot be given yet: ${names.join(", ")}.`,
    { inputs: names },
  );
}
