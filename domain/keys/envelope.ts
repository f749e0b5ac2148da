import { OrreryError } from "../errors.ts";
import { transcript } from "../identity/transcript.ts";
import { decrypt, encrypt } from "./aes-gcm.ts";

/** What a key's ciphertext belongs to: under another node's or key's name it does not open. */
export interface KeyPlace {
  readonly nodeId: string;
  readonly name: string;
}

/** A key's bytes under the node's DEK (data encryption key). @param nonce 12 random bytes, never used before */
export function encryptKey(
  dek: Uint8Array,
  place: KeyPlace,
  nonce: Uint8Array,
  plaintext: Uint8Array,
): Promise<Uint8Array> {
  return encrypt(dek, nonce, contextOf(place), plaintext);
}

/** The key's bytes, the caller's to overwrite. @throws key_unreadable */
export async function decryptKey(
  dek: Uint8Array,
  place: KeyPlace,
  { nonce, ciphertext }: { readonly nonce: Uint8Array; readonly ciphertext: Uint8Array },
): Promise<Uint8Array> {
  const plaintext = await decrypt(dek, nonce, contextOf(place), ciphertext);
  if (plaintext !== null) return plaintext;
  throw new OrreryError("key_unreadable", `The key ${place.name} cannot be decrypted.`);
}

function contextOf({ nodeId, name }: KeyPlace): Uint8Array {
  return transcript("orrery-node-key-v1", [nodeId, name]);
}
