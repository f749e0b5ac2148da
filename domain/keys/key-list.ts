import { hkdf } from "@noble/hashes/hkdf.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import { OrreryError } from "../errors.ts";
import { equalBytes, transcript } from "../identity/transcript.ts";
import { AES_KEY_BYTES } from "./aes-gcm.ts";
import { type KeyLabel, labelBytes } from "./envelope.ts";
import { withSecret } from "./secret.ts";

/** A key as it is kept and as it travels: what it is said to be, and its bytes under the DEK. */
export interface SealedKey extends Omit<KeyLabel, "nodeId"> {
  readonly nonce: Uint8Array;
  readonly ciphertext: Uint8Array;
}

/**
 * The MAC over all of a node's keys, in whatever order they come: each ciphertext vouches for its own key alone, and only
 * this for the list, that none was left out and none put in.
 */
export function keysMac(dek: Uint8Array, nodeId: string, keys: readonly SealedKey[]): Promise<Uint8Array> {
  return withSecret(macKey(dek), (key) => hmac(sha256, key, listBytes(nodeId, keys)));
}

/** @throws key_unreadable when these are not the node's keys as they were made, all of them and no others */
export async function requireAllKeys(
  dek: Uint8Array,
  nodeId: string,
  keys: readonly SealedKey[],
  mac: Uint8Array,
): Promise<void> {
  if (equalBytes(await keysMac(dek, nodeId, keys), mac)) return;
  throw new OrreryError("key_unreadable", "These are not all of the node's keys as they were made.");
}

function macKey(dek: Uint8Array): Uint8Array {
  return hkdf(sha256, dek, utf8ToBytes("orrery-node-keys"), utf8ToBytes("list-mac-v1"), AES_KEY_BYTES);
}

function listBytes(nodeId: string, keys: readonly SealedKey[]): Uint8Array {
  const byName = keys.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const parts = byName.flatMap(({ nonce, ciphertext, ...facts }) => [
    labelBytes({ ...facts, nodeId }),
    nonce,
    ciphertext,
  ]);
  return transcript("orrery-node-keys-v1", [nodeId, ...parts]);
}
