import { hkdf } from "@noble/hashes/hkdf.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { concatBytes, utf8ToBytes } from "@noble/hashes/utils.js";
import { OrreryError } from "../errors.ts";
import { transcript } from "../identity/transcript.ts";
import { AES_KEY_BYTES, decrypt, encrypt, NONCE_BYTES } from "./aes-gcm.ts";
import { withSecret } from "./secret.ts";

/** How a node's DEK is kept. The id stands beside each wrapped DEK, so that another way can be added and both be read. */
export interface DekWrapping {
  readonly id: string;
  /** @param nonce 12 random bytes, never used before */
  wrap(nodeId: string, dek: Uint8Array, nonce: Uint8Array): Promise<Uint8Array>;
  /** The DEK, the caller's to overwrite. @throws key_unreadable */
  unwrap(nodeId: string, wrapped: Uint8Array): Promise<Uint8Array>;
}

const MASTER_V1 = "master-v1";

/** AES-256-GCM under a key derived from the master secret: nonce, then ciphertext. */
export function masterWrapping(masterSecret: string): DekWrapping {
  const withKey = <T>(use: (key: Uint8Array) => Promise<T>) => withSecret(wrappingKey(masterSecret), use);
  return {
    id: MASTER_V1,
    wrap: (nodeId, dek, nonce) =>
      withKey(async (key) => concatBytes(nonce, await encrypt(key, nonce, contextOf(nodeId), dek))),
    unwrap: (nodeId, wrapped) =>
      withKey(async (key) => {
        const [nonce, ciphertext] = [wrapped.subarray(0, NONCE_BYTES), wrapped.subarray(NONCE_BYTES)];
        const dek = await decrypt(key, nonce, contextOf(nodeId), ciphertext);
        if (dek !== null) return dek;
        throw new OrreryError("key_unreadable", "The node's data encryption key cannot be unwrapped.");
      }),
  };
}

/** @throws key_unreadable when this deployment does not know the wrapping */
export function requireWrapping(known: DekWrapping, id: string): DekWrapping {
  if (known.id === id) return known;
  throw new OrreryError("key_unreadable", `The node's keys are wrapped by ${id}, which this deployment does not know.`);
}

function wrappingKey(masterSecret: string): Uint8Array {
  return hkdf(
    sha256,
    utf8ToBytes(masterSecret),
    utf8ToBytes("orrery-dek-wrapping"),
    utf8ToBytes(MASTER_V1),
    AES_KEY_BYTES,
  );
}

function contextOf(nodeId: string): Uint8Array {
  return transcript("orrery-dek-wrap-v1", [MASTER_V1, nodeId]);
}
