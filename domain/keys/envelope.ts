import { OrreryError } from "../errors.ts";
import { transcript } from "../identity/transcript.ts";
import { decrypt, encrypt } from "./aes-gcm.ts";

/** What a key is, as it stands beside its ciphertext: with any of it changed the ciphertext does not open. */
export interface KeyLabel {
  readonly nodeId: string;
  readonly name: string;
  readonly type: string;
  readonly source: string;
  /** Hex; null where the type has none. */
  readonly publicKey: string | null;
}

/** A key's bytes under the node's DEK (data encryption key). @param nonce 12 random bytes, never used before */
export function encryptKey(
  dek: Uint8Array,
  label: KeyLabel,
  nonce: Uint8Array,
  plaintext: Uint8Array,
): Promise<Uint8Array> {
  return encrypt(dek, nonce, labelBytes(label), plaintext);
}

/** The key's bytes, the caller's to overwrite. @throws key_unreadable */
export async function decryptKey(
  dek: Uint8Array,
  label: KeyLabel,
  { nonce, ciphertext }: { readonly nonce: Uint8Array; readonly ciphertext: Uint8Array },
): Promise<Uint8Array> {
  const plaintext = await decrypt(dek, nonce, labelBytes(label), ciphertext);
  if (plaintext !== null) return plaintext;
  throw new OrreryError(
    "key_unreadable",
    `The key ${label.name} cannot be decrypted, or it is not what it is said to be.`,
  );
}

/** A key's associated data. No public key is another list of parts than an empty one. */
export function labelBytes({ nodeId, name, type, source, publicKey }: KeyLabel): Uint8Array {
  return transcript("orrery-node-key-v2", [nodeId, name, type, source, ...(publicKey === null ? [] : [publicKey])]);
}
