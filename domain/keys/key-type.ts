/** The kinds of keys that a chain's profile can ask for. */
export const KEY_TYPES = ["ed25519", "secp256k1", "bls12-381", "jwt-hex", "random"] as const;
export type KeyType = (typeof KEY_TYPES)[number];

/** How a key stands in its file. */
export const KEY_ENCODINGS = ["hex", "base64", "raw"] as const;
export type KeyEncoding = (typeof KEY_ENCODINGS)[number];

/** Who made a key (source 000, "Secret Sources"); only generated ones can be provided so far. */
export const KEY_SOURCES = ["generated"] as const;
export type KeySource = (typeof KEY_SOURCES)[number];

/** A key file is for its account and group, to read or write, and for nobody else. @param mode permission bits */
export function isKeyFileMode(mode: number): boolean {
  return (mode & 0o660) !== 0 && (mode & ~0o660) === 0;
}
