import { hkdf } from "@noble/hashes/hkdf.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import { signingPublicKey } from "./signature.ts";

/** A key of the control plane as agents know it. */
export interface ControlKey {
  readonly keyId: string;
  /** Ed25519, 32 bytes. */
  readonly publicKey: Uint8Array;
}

/** A key of the control plane with its secret. */
export interface ControlSigner extends ControlKey {
  readonly secretKey: Uint8Array;
}

/**
 * The keys that the control plane signs with at this version, newest first: its own and the one before, so that an agent
 * that was away during a rotation is still believed and told of the new key. Derived from the master secret: a node's
 * object needs them at every session, also while Postgres is away.
 */
export function controlSigners(masterSecret: string, version: number): readonly ControlSigner[] {
  const versions = version > 1 ? [version, version - 1] : [version];
  return versions.map((each) => {
    const secretKey = hkdf(
      sha256,
      utf8ToBytes(masterSecret),
      utf8ToBytes("orrery-control-key"),
      utf8ToBytes(String(each)),
      32,
    );
    return { keyId: `control-${each}`, secretKey, publicKey: signingPublicKey(secretKey) };
  });
}

/** The newest key that the agent trusts. One that trusts none is answered with the newest, and will refuse it. */
export function signerFor(signers: readonly ControlSigner[], trustedIds: readonly string[]): ControlSigner {
  const signer = signers.find(({ keyId }) => trustedIds.includes(keyId)) ?? signers[0];
  if (signer === undefined) throw new RangeError("there is no control key");
  return signer;
}
