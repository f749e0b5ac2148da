import { secp256k1 } from "@noble/curves/secp256k1.js";
import { signingPublicKey } from "../identity/signature.ts";
import type { KeyType } from "./key-type.ts";

/** A new key. The secret is the caller's to overwrite. */
export interface MadeKey {
  readonly secret: Uint8Array;
  /** Null where the type has none. */
  readonly publicKey: Uint8Array | null;
}

/** Reducing a third more than a key's 32 bytes leaves no number likelier than another. */
const SCALAR_SEED_BYTES = 48;
const KEY_BYTES = 32;

/** How many random bytes `makeKey` needs. @param bytes the length of a `random` key */
export function seedBytes(type: KeyType, bytes: number): number {
  if (type === "random") return bytes;
  return type === "secp256k1" || type === "bls12-381" ? SCALAR_SEED_BYTES : KEY_BYTES;
}

/** The key that a seed stands for. @param seed `seedBytes` random bytes, the caller's to overwrite */
export async function makeKey(type: KeyType, seed: Uint8Array): Promise<MadeKey> {
  switch (type) {
    case "ed25519":
      return { secret: seed.slice(), publicKey: signingPublicKey(seed) };
    case "secp256k1": {
      const secret = secp256k1.utils.randomSecretKey(seed);
      return { secret, publicKey: secp256k1.getPublicKey(secret, true) };
    }
    case "bls12-381": {
      // Loaded where it is needed: its tables take longer to make than the rest of the Worker's start.
      const { blsPublicKey, blsSecretKey } = await import("./bls.ts");
      const secret = blsSecretKey(seed);
      return { secret, publicKey: blsPublicKey(secret) };
    }
    case "jwt-hex":
    case "random":
      return { secret: seed.slice(), publicKey: null };
  }
}
