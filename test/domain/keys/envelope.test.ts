import { createDecipheriv, createPrivateKey, createPublicKey, diffieHellman, hkdfSync } from "node:crypto";
import { bytesToHex } from "@noble/hashes/utils.js";
import fc from "fast-check";
import { describe, it } from "vitest";
import { exchangePublicKey } from "../../../domain/identity/handshake.ts";
import { openDek, sealDek } from "../../../domain/keys/dek-sealing.ts";
import { masterWrapping, requireWrapping } from "../../../domain/keys/dek-wrapping.ts";
import { decryptKey, encryptKey, type KeyLabel } from "../../../domain/keys/envelope.ts";
import { MASTER_SECRET, NODE_ID, OTHER_NODE } from "./sample.ts";

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
const UNREADABLE = { code: "key_unreadable" };
const PUBLIC_KEY = "ab".repeat(32);
const LABEL: KeyLabel = {
  nodeId: NODE_ID,
  name: "node_key",
  type: "ed25519",
  source: "generated",
  publicKey: PUBLIC_KEY,
};
const RECIPIENT = { nodeId: NODE_ID, installationId: "11111111-1111-4111-8111-111111111111" };

/** A copy with one bit turned over. */
function altered(whole: Uint8Array, bit: number): Uint8Array {
  const copy = whole.slice();
  const at = Math.floor(bit / 8) % copy.length;
  copy[at] = (copy[at] ?? 0) ^ (1 << (bit % 8));
  return copy;
}

/** The associated data as its description says, written down once more: each part behind its length. */
function context(purpose: string, ...parts: readonly string[]): Buffer {
  return Buffer.concat(
    [purpose, ...parts].flatMap((part) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(part.length);
      return [length, Buffer.from(part)];
    }),
  );
}

function openGcm(key: Uint8Array, nonce: Uint8Array, sealed: Uint8Array, aad: Buffer): string {
  const decipher = createDecipheriv("aes-256-gcm", key, nonce);
  decipher.setAAD(aad);
  decipher.setAuthTag(sealed.slice(-16));
  return Buffer.concat([decipher.update(sealed.slice(0, -16)), decipher.final()]).toString("hex");
}

describe("a key under its node's DEK", () => {
  it("comes back whole, and for no other node, name or DEK", async ({ expect }) => {
    await fc.assert(
      fc.asyncProperty(bytes(32), bytes(12), fc.uint8Array({ maxLength: 1024 }), async (dek, nonce, plaintext) => {
        const ciphertext = await encryptKey(dek, LABEL, nonce, plaintext);
        expect(await decryptKey(dek, LABEL, { nonce, ciphertext })).toEqual(plaintext);
        for (const label of [
          { ...LABEL, nodeId: OTHER_NODE },
          { ...LABEL, name: "node_kez" },
          { ...LABEL, nodeId: `${NODE_ID}n`, name: "ode_key" },
          { ...LABEL, publicKey: null },
          { ...LABEL, publicKey: "" },
        ]) {
          await expect(decryptKey(dek, label, { nonce, ciphertext })).rejects.toMatchObject(UNREADABLE);
        }
        await expect(decryptKey(altered(dek, 3), LABEL, { nonce, ciphertext })).rejects.toMatchObject(UNREADABLE);
      }),
      { numRuns: 20 },
    );
  });

  it("does not open when a single bit of nonce or ciphertext was altered, or any end is missing", async ({
    expect,
  }) => {
    const dek = new Uint8Array(32).fill(1);
    const nonce = new Uint8Array(12).fill(2);
    const ciphertext = await encryptKey(dek, LABEL, nonce, new Uint8Array(33).fill(3));
    for (let bit = 0; bit < ciphertext.length * 8; bit += 1) {
      const broken = { nonce, ciphertext: altered(ciphertext, bit) };
      await expect(decryptKey(dek, LABEL, broken)).rejects.toMatchObject(UNREADABLE);
    }
    for (let bit = 0; bit < 96; bit += 1) {
      const broken = { nonce: altered(nonce, bit), ciphertext };
      await expect(decryptKey(dek, LABEL, broken)).rejects.toMatchObject(UNREADABLE);
    }
    for (let length = 0; length < ciphertext.length; length += 1) {
      const broken = { nonce, ciphertext: ciphertext.subarray(0, length) };
      await expect(decryptKey(dek, LABEL, broken)).rejects.toMatchObject(UNREADABLE);
    }
  });

  it("does not open when anything that is said of it was altered", async ({ expect }) => {
    const dek = new Uint8Array(32).fill(1);
    const nonce = new Uint8Array(12).fill(2);
    const ciphertext = await encryptKey(dek, LABEL, nonce, new Uint8Array(33).fill(3));
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("nodeId", "name", "type", "source", "publicKey"),
        fc.string(),
        async (field, text) => {
          fc.pre(LABEL[field] !== text);
          const altered = decryptKey(dek, { ...LABEL, [field]: text }, { nonce, ciphertext });
          await expect(altered).rejects.toMatchObject(UNREADABLE);
        },
      ),
    );
  });

  it("that has no public key does not open under any, nor under an empty one", async ({ expect }) => {
    const [dek, nonce] = [new Uint8Array(32).fill(1), new Uint8Array(12).fill(2)];
    const label = { ...LABEL, publicKey: null };
    const ciphertext = await encryptKey(dek, label, nonce, new Uint8Array(33).fill(3));
    expect(await decryptKey(dek, label, { nonce, ciphertext })).toHaveLength(33);
    for (const publicKey of ["", PUBLIC_KEY]) {
      const forged = decryptKey(dek, { ...label, publicKey }, { nonce, ciphertext });
      await expect(forged).rejects.toMatchObject(UNREADABLE);
    }
  });

  it("is AES-256-GCM with all that is said of it as associated data, as another implementation reads it", async ({
    expect,
  }) => {
    const [dek, nonce] = [new Uint8Array(32).fill(1), new Uint8Array(12).fill(2)];
    const ciphertext = await encryptKey(dek, LABEL, nonce, new Uint8Array(4).fill(3));
    expect(bytesToHex(ciphertext)).toBe("04d5ca4acc5d0f077c6543e23122409cbbaa8406");
    expect(
      openGcm(
        dek,
        nonce,
        ciphertext,
        context("orrery-node-key-v2", NODE_ID, "node_key", "ed25519", "generated", PUBLIC_KEY),
      ),
    ).toBe("03030303");
  });
});

describe("a DEK wrapped by the master key", () => {
  const wrapping = masterWrapping(MASTER_SECRET);

  it("comes back for its own node under its own secret alone", async ({ expect }) => {
    await fc.assert(
      fc.asyncProperty(bytes(32), bytes(12), fc.nat(), async (dek, nonce, bit) => {
        const wrapped = await wrapping.wrap(NODE_ID, dek, nonce);
        expect(await wrapping.unwrap(NODE_ID, wrapped)).toEqual(dek);
        await expect(wrapping.unwrap(OTHER_NODE, wrapped)).rejects.toMatchObject(UNREADABLE);
        await expect(wrapping.unwrap(NODE_ID, altered(wrapped, bit))).rejects.toMatchObject(UNREADABLE);
        await expect(wrapping.unwrap(NODE_ID, wrapped.subarray(1))).rejects.toMatchObject(UNREADABLE);
        const another = masterWrapping(`${MASTER_SECRET}!`);
        await expect(another.unwrap(NODE_ID, wrapped)).rejects.toMatchObject(UNREADABLE);
      }),
      { numRuns: 20 },
    );
  });

  it("is AES-256-GCM under HKDF of the master secret, as another implementation reads it", async ({ expect }) => {
    const nonce = new Uint8Array(12).fill(2);
    const wrapped = await wrapping.wrap(NODE_ID, new Uint8Array(32).fill(5), nonce);
    const key = new Uint8Array(hkdfSync("sha256", MASTER_SECRET, "orrery-dek-wrapping", "master-v1", 32));
    const aad = context("orrery-dek-wrap-v1", "master-v1", NODE_ID);
    expect(wrapped.subarray(0, 12)).toEqual(nonce);
    expect(openGcm(key, nonce, wrapped.subarray(12), aad)).toBe("05".repeat(32));
    expect(bytesToHex(wrapped)).toBe(
      "020202020202020202020202c105fda4ea08190740356302370b4c68db17a86c4052ebd98b20f4de1026dc9ee469bef410b8b52ebe42ace00201792f",
    );
  });

  it("is refused by a deployment that does not know how it was wrapped", ({ expect }) => {
    expect(requireWrapping(wrapping, "master-v1")).toBe(wrapping);
    expect(() => requireWrapping(wrapping, "vault-transit-v1")).toThrow(/vault-transit-v1/);
  });
});

describe("a DEK sealed to an installation", () => {
  const secret = new Uint8Array(32).fill(9);
  const sealingKey = exchangePublicKey(secret);
  const seal = (dek: Uint8Array, ephemeral = 4) =>
    sealDek(dek, RECIPIENT, sealingKey, {
      ephemeralSecret: new Uint8Array(32).fill(ephemeral),
      nonce: new Uint8Array(12).fill(2),
    });

  it("opens for that installation of that node alone", async ({ expect }) => {
    const dek = new Uint8Array(32).fill(5);
    const sealed = await seal(dek);
    expect(sealed.length).toBe(92);
    expect(await openDek(sealed, RECIPIENT, secret)).toEqual(dek);
    expect(secret).toEqual(new Uint8Array(32).fill(9));
    for (const other of [
      { ...RECIPIENT, nodeId: OTHER_NODE },
      { ...RECIPIENT, installationId: "21111111-1111-4111-8111-111111111111" },
    ]) {
      await expect(openDek(sealed, other, secret)).rejects.toMatchObject(UNREADABLE);
    }
    await expect(openDek(sealed, RECIPIENT, new Uint8Array(32).fill(8))).rejects.toMatchObject(UNREADABLE);
  });

  it("does not open when any byte was altered or is missing", async ({ expect }) => {
    const sealed = await seal(new Uint8Array(32).fill(5));
    for (let at = 0; at < sealed.length; at += 1) {
      // The top bit of an X25519 key is no part of it (RFC 7748); the salt of the derivation covers it all the same.
      for (const bit of [at * 8, at * 8 + 7]) {
        await expect(openDek(altered(sealed, bit), RECIPIENT, secret)).rejects.toMatchObject(UNREADABLE);
      }
      await expect(openDek(sealed.subarray(0, at), RECIPIENT, secret)).rejects.toMatchObject(UNREADABLE);
    }
    await expect(openDek(new Uint8Array(92), RECIPIENT, secret)).rejects.toMatchObject(UNREADABLE);
  });

  it("takes no key of low order and none of another length", async ({ expect }) => {
    for (const bad of [new Uint8Array(32), new Uint8Array(31).fill(9), new Uint8Array(0)]) {
      const random = { ephemeralSecret: new Uint8Array(32).fill(4), nonce: new Uint8Array(12) };
      await expect(sealDek(new Uint8Array(32), RECIPIENT, bad, random)).rejects.toMatchObject(UNREADABLE);
      expect(random.ephemeralSecret).toEqual(new Uint8Array(32));
    }
  });

  it("is X25519, HKDF and AES-256-GCM, as another implementation reads it", async ({ expect }) => {
    const sealed = await seal(new Uint8Array(32).fill(5));
    const privateKey = createPrivateKey({
      key: Buffer.concat([Buffer.from("302e020100300506032b656e04220420", "hex"), secret]),
      format: "der",
      type: "pkcs8",
    });
    const publicKey = createPublicKey({
      key: Buffer.concat([Buffer.from("302a300506032b656e032100", "hex"), sealed.subarray(0, 32)]),
      format: "der",
      type: "spki",
    });
    const shared = diffieHellman({ privateKey, publicKey });
    const salt = Buffer.concat([sealed.subarray(0, 32), sealingKey]);
    const key = new Uint8Array(hkdfSync("sha256", shared, salt, "orrery-dek-seal-v1", 32));
    const aad = context("orrery-dek-seal-v1", RECIPIENT.nodeId, RECIPIENT.installationId);
    expect(openGcm(key, sealed.subarray(32, 44), sealed.subarray(44), aad)).toBe("05".repeat(32));
    expect(bytesToHex(sealed)).toBe(
      `ac01b2209e86354fb853237b5de0f4fab13c7fcbf433a61c019369617fecf10b${"02".repeat(12)}0148aab8c908cf61eb4451a859886b90bf37daecb8094aa353d5562fc189d482c014c5793fd3e8682c897465c80bcfec`,
    );
  });
});
