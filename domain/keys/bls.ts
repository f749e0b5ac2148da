import { bls12_381 } from "@noble/curves/bls12-381.js";

/** BLS12-381 with public keys in G1 (48 bytes), as Ethereum's validators have them. A module of its own, loaded where it is used. */

/** @param seed 48 random bytes */
export function blsSecretKey(seed: Uint8Array): Uint8Array {
  return bls12_381.utils.randomSecretKey(seed);
}

export function blsPublicKey(secretKey: Uint8Array): Uint8Array {
  return bls12_381.longSignatures.getPublicKey(secretKey).toBytes(true);
}
