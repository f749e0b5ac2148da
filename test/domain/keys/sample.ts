import type { DeclaredKey } from "../../../domain/keys/declared.ts";
import type { RandomBytes } from "../../../domain/keys/key-set.ts";
import { KEY_TYPES } from "../../../domain/keys/key-type.ts";

export const NODE_ID = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0000";
export const OTHER_NODE = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
export const MASTER_SECRET = "a-master-secret-that-is-long-enough-to-be-one";

/** One key of every type. */
export const DECLARED: readonly DeclaredKey[] = KEY_TYPES.map((type) => ({
  name: type.replaceAll("-", "_"),
  type,
  bytes: 48,
  file: { path: `keys/${type}`, owner: null, mode: 0o600, encoding: "hex" },
}));

/** The same bytes in every run, others in every call; `taken` holds what was handed out. */
export function countingRandom(): { readonly random: RandomBytes; readonly taken: readonly Uint8Array[] } {
  const taken: Uint8Array[] = [];
  const random = (length: number) => {
    const start = taken.length * 17 + 1;
    const bytes = Uint8Array.from({ length }, (_, index) => (start + index) % 251);
    taken.push(bytes);
    return bytes;
  };
  return { random, taken };
}
