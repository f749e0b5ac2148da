import { createECDH, createPrivateKey, createPublicKey } from "node:crypto";
import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";
import fc from "fast-check";
import { describe, it } from "vitest";
import { blsPublicKey } from "../../../domain/keys/bls.ts";
import { encodeSecret } from "../../../domain/keys/file-encoding.ts";
import { KEY_TYPES } from "../../../domain/keys/key-type.ts";
import { makeKey, seedBytes } from "../../../domain/keys/make-key.ts";

const seedOf = (length: number, fill = 7) => new Uint8Array(length).fill(fill);
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

describe("a key made of a seed", () => {
  it.for([
    ["ed25519", 32, "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c"],
    ["secp256k1", 48, "0254275c65c4dc351a7885b6cc0f910bfde7945194cf1b4d41fb99aa5e24843280"],
    [
      "bls12-381",
      48,
      "b863b77be30bd1fb06f4e2ce23c18afcf8a0a039331c11dc529a57cdf6f87abecd9e3896ca931ab1dcd0019399ac62b8",
    ],
    ["jwt-hex", 32, null],
    ["random", 64, null],
  ] as const)("is the same for the same seed: %s", async ([type, length, expected], { expect }) => {
    expect(seedBytes(type, 64)).toBe(length);
    const { secret, publicKey } = await makeKey(type, seedOf(length));
    expect(secret.length).toBe(type === "random" ? 64 : 32);
    expect(publicKey === null ? null : bytesToHex(publicKey)).toBe(expected);
  });

  it("has the public key that another implementation finds for an Ed25519 secret", async ({ expect }) => {
    const { secret, publicKey } = await makeKey("ed25519", seedOf(32, 9));
    const pkcs8 = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), secret]);
    const theirs = createPublicKey(createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" }));
    expect(Buffer.from(publicKey ?? []).toString("base64url")).toBe(theirs.export({ format: "jwk" }).x);
  });

  it("has the public key that another implementation finds for a secp256k1 secret", async ({ expect }) => {
    const { secret, publicKey } = await makeKey("secp256k1", seedOf(48, 9));
    const theirs = createECDH("secp256k1");
    theirs.setPrivateKey(secret);
    expect(publicKey).toEqual(new Uint8Array(theirs.getPublicKey(null, "compressed")));
  });

  it("has a public key in G1 for a BLS secret: that of the secret 1 is the generator", ({ expect }) => {
    const one = Uint8Array.from({ length: 32 }, (_, index) => (index === 31 ? 1 : 0));
    expect(bytesToHex(blsPublicKey(one))).toBe(
      "97f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb",
    );
  });

  it("keeps nothing of its seed's buffer: the seed may be overwritten", async ({ expect }) => {
    for (const type of KEY_TYPES) {
      const seed = seedOf(seedBytes(type, 32));
      const { secret } = await makeKey(type, seed);
      const before = bytesToHex(secret);
      seed.fill(0);
      expect(bytesToHex(secret)).toBe(before);
    }
  });
});

describe("a key's file", () => {
  it("holds the secret in its encoding, for any bytes", ({ expect }) => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 1024 }), (secret) => {
        expect(hexToBytes(text(encodeSecret(secret, "hex")))).toEqual(secret);
        expect(text(encodeSecret(secret, "base64"))).toBe(Buffer.from(secret).toString("base64"));
        expect(encodeSecret(secret, "raw")).toEqual(secret);
      }),
    );
  });

  it("is a buffer of its own in every encoding", ({ expect }) => {
    const secret = seedOf(4);
    encodeSecret(secret, "raw").fill(0);
    expect(secret).toEqual(seedOf(4));
  });
});
