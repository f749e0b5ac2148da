import { ed25519 } from "@noble/curves/ed25519.js";

/** Ed25519 signatures. Keys are 32 bytes, signatures 64. */

export function signingPublicKey(secretKey: Uint8Array): Uint8Array {
  return ed25519.getPublicKey(secretKey);
}

export function sign(secretKey: Uint8Array, message: Uint8Array): Uint8Array {
  return ed25519.sign(message, secretKey);
}

/** Whatever the bytes, this answers and never throws: a malformed key or signature is simply wrong. */
export function isSignature(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (publicKey.length !== 32 || signature.length !== 64) return false;
  try {
    return ed25519.verify(signature, message, publicKey);
  } catch {
    return false;
  }
}
