import { x25519 } from "@noble/curves/ed25519.js";
import { hkdf } from "@noble/hashes/hkdf.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { concatBytes, utf8ToBytes } from "@noble/hashes/utils.js";
import { OrreryError } from "../errors.ts";
import { transcript } from "../identity/transcript.ts";
import { AES_KEY_BYTES, decrypt, encrypt, NONCE_BYTES } from "./aes-gcm.ts";
import { withSecret } from "./secret.ts";

/**
 * A DEK sealed to one installation of one node: ephemeral X25519 public key (32), nonce (12), AES-256-GCM of the DEK (48).
 * The key comes from the exchange with the installation's sealing key, by HKDF-SHA256 salted with both public keys.
 */

export interface Recipient {
  readonly nodeId: string;
  readonly installationId: string;
}

export interface SealingRandom {
  /** 32 random bytes, overwritten here. */
  readonly ephemeralSecret: Uint8Array;
  /** 12 random bytes. */
  readonly nonce: Uint8Array;
}

const POINT_BYTES = 32;

/** @param sealingKey the installation's X25519 public key @throws key_unreadable when that is no key */
export async function sealDek(
  dek: Uint8Array,
  recipient: Recipient,
  sealingKey: Uint8Array,
  { ephemeralSecret, nonce }: SealingRandom,
): Promise<Uint8Array> {
  return withSecret(ephemeralSecret, async (secret) => {
    const ephemeralKey = x25519.getPublicKey(secret);
    const ciphertext = await withSecret(exchange(secret, sealingKey, ephemeralKey, sealingKey), (key) =>
      encrypt(key, nonce, contextOf(recipient), dek),
    );
    return concatBytes(ephemeralKey, nonce, ciphertext);
  });
}

/** The DEK, the caller's to overwrite. @param sealingSecret stays as it is @throws key_unreadable */
export async function openDek(
  sealed: Uint8Array,
  recipient: Recipient,
  sealingSecret: Uint8Array,
): Promise<Uint8Array> {
  const ephemeralKey = sealed.subarray(0, POINT_BYTES);
  const nonce = sealed.subarray(POINT_BYTES, POINT_BYTES + NONCE_BYTES);
  const key = exchange(sealingSecret, ephemeralKey, ephemeralKey, x25519.getPublicKey(sealingSecret));
  const dek = await withSecret(key, () =>
    decrypt(key, nonce, contextOf(recipient), sealed.subarray(POINT_BYTES + NONCE_BYTES)),
  );
  if (dek !== null) return dek;
  throw unreadable();
}

function exchange(secret: Uint8Array, peer: Uint8Array, ephemeral: Uint8Array, sealing: Uint8Array): Uint8Array {
  const shared = sharedSecret(secret, peer);
  try {
    return hkdf(sha256, shared, concatBytes(ephemeral, sealing), utf8ToBytes("orrery-dek-seal-v1"), AES_KEY_BYTES);
  } finally {
    shared.fill(0);
  }
}

function sharedSecret(secret: Uint8Array, peer: Uint8Array): Uint8Array {
  if (peer.length !== POINT_BYTES) throw unreadable();
  try {
    return x25519.getSharedSecret(secret, peer);
  } catch {
    // A point of low order, which would give every secret the same key.
    throw unreadable();
  }
}

function contextOf({ nodeId, installationId }: Recipient): Uint8Array {
  return transcript("orrery-dek-seal-v1", [nodeId, installationId]);
}

function unreadable(): OrreryError {
  return new OrreryError("key_unreadable", "The data encryption key is not sealed to this installation.");
}
