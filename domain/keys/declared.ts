import { parseNodeChain } from "../chain/parse.ts";
import type { ChainProfile } from "../chain/profile.ts";
import type { KeyEncoding, KeyType } from "./key-type.ts";

/** A key that a chain's profile has the platform make, and the file that its nodes find it in. */
export interface DeclaredKey {
  readonly name: string;
  readonly type: KeyType;
  /** The length of a `random` key; the others have their own. */
  readonly bytes: number;
  readonly file: {
    /** Inside the node's data directory. */
    readonly path: string;
    /** Null: the agent's own account. */
    readonly owner: string | null;
    readonly mode: number;
    readonly encoding: KeyEncoding;
  };
}

/** The length of a `random` key where its chain says none. */
const RANDOM_BYTES = 32;

/** The keys that nodes of this type have, by the chain's files as they were pushed. @throws chain_invalid */
export function declaredKeys(
  chain: string,
  nodeType: string,
  files: Readonly<Record<string, string>>,
): readonly DeclaredKey[] {
  return generatedKeys(parseNodeChain(chain, nodeType, files).profile);
}

/** The keys of source `generated`, in the profile's order. */
export function generatedKeys(profile: Pick<ChainProfile, "provisioning_inputs">): readonly DeclaredKey[] {
  return profile.provisioning_inputs.flatMap((input) => {
    if (input.type !== "secret" || input.source !== "generated") return [];
    const { name, key_type: type, bytes = RANDOM_BYTES, file } = input;
    return [{ name, type, bytes, file: { ...file, owner: file.owner ?? null, mode: Number.parseInt(file.mode, 8) } }];
  });
}
