import { createHmac, hkdfSync } from "node:crypto";
import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";
import fc from "fast-check";
import { describe, it } from "vitest";
import { backupText, parseBackup } from "../../../domain/keys/backup.ts";
import { masterWrapping } from "../../../domain/keys/dek-wrapping.ts";
import { decryptKey } from "../../../domain/keys/envelope.ts";
import { encodeSecret } from "../../../domain/keys/file-encoding.ts";
import { keysMac } from "../../../domain/keys/key-list.ts";
import { isComplete, makeKeySet, type NodeKeySet, requireReadable, withDek } from "../../../domain/keys/key-set.ts";
import { KEY_ENCODINGS } from "../../../domain/keys/key-type.ts";
import { makeKey, seedBytes } from "../../../domain/keys/make-key.ts";
import { withSecret } from "../../../domain/keys/secret.ts";
import { countingRandom, DECLARED, MASTER_SECRET, NODE_ID, OTHER_NODE } from "./sample.ts";

const UNREADABLE = { code: "key_unreadable" };
const wrapping = masterWrapping(MASTER_SECRET);
const NODE = { nodeId: NODE_ID, createdAt: 1_796_000_000_000 };

const make = (random = countingRandom().random) => makeKeySet(NODE, DECLARED, wrapping, random);

/** Each key's file as the chain node would find it. */
function filesOf(set: NodeKeySet): Promise<string[]> {
  return withDek(set, wrapping, (dek) =>
    Promise.all(
      set.keys.map(async ({ nonce, ciphertext, ...facts }) => {
        const sealed = { nonce: hexToBytes(nonce), ciphertext: hexToBytes(ciphertext) };
        return new TextDecoder().decode(await decryptKey(dek, { nodeId: set.nodeId, ...facts }, sealed));
      }),
    ),
  );
}

describe("a node's keys", () => {
  it("are one of every declared type, readable with the master secret alone", async ({ expect }) => {
    const set = await make();
    expect(set.keys.map(({ name, type, source }) => ({ name, type, source }))).toEqual(
      DECLARED.map(({ name, type }) => ({ name, type, source: "generated" })),
    );
    expect((await filesOf(set)).map((file) => file.length)).toEqual([64, 64, 64, 64, 96]);
    expect(set.keys.map(({ publicKey }) => publicKey?.length ?? 0)).toEqual([64, 66, 96, 0, 0]);
    await expect(requireReadable(set, masterWrapping("another secret"))).rejects.toMatchObject(UNREADABLE);
  });

  it("are the same for the same random bytes", async ({ expect }) => {
    await expect(`${JSON.stringify(await make(), null, 2)}\n`).toMatchFileSnapshot("./key-set.json");
  });

  it("come back as the key that their random bytes stand for, whatever type, encoding and bytes", async ({
    expect,
  }) => {
    const encodings = fc.constantFrom(...KEY_ENCODINGS);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...DECLARED),
        encodings,
        fc.uint8Array({ minLength: 64, maxLength: 64 }),
        async (key, encoding, bytes) => {
          const declared = { ...key, file: { ...key.file, encoding } };
          const set = await makeKeySet(NODE, [declared], wrapping, (length) => bytes.slice(0, length));
          const { secret, publicKey } = await makeKey(key.type, bytes.slice(0, seedBytes(key.type, key.bytes)));
          expect(await filesOf(set)).toEqual([new TextDecoder().decode(encodeSecret(secret, encoding))]);
          expect(set.keys[0]?.publicKey).toBe(publicKey === null ? null : bytesToHex(publicKey));
        },
      ),
      { numRuns: 40 },
    );
  });

  it("never use a nonce twice, and leave no secret in the random bytes that they were made of", async ({ expect }) => {
    const { random, taken } = countingRandom();
    const set = await make(random);
    const nonces = [set.wrappedDek.slice(0, 24), ...set.keys.map(({ nonce }) => nonce)];
    expect(new Set(nonces).size).toBe(1 + DECLARED.length);
    const secrets = taken.filter(({ length }) => length !== 12);
    expect(secrets).toHaveLength(1 + DECLARED.length);
    for (const secret of secrets) expect(secret).toEqual(new Uint8Array(secret.length));
  });

  it("are not in what is stored: not in the clear and not encoded", async ({ expect }) => {
    const set = await make();
    const stored = JSON.stringify(set);
    const dek = await withDek(set, wrapping, async (bytes) => bytesToHex(bytes));
    for (const secret of [dek, ...(await filesOf(set))]) expect(stored).not.toContain(secret);
  });

  it("overwrite the DEK after use, also when the use fails", async ({ expect }) => {
    const set = await make();
    const seen: Uint8Array[] = [];
    const failing = withDek(set, wrapping, async (dek) => {
      seen.push(dek);
      throw new Error("on the way");
    });
    await expect(failing).rejects.toThrow("on the way");
    expect(seen).toEqual([new Uint8Array(32)]);
    const secret = new Uint8Array([1, 2]);
    await expect(withSecret(secret, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(secret).toEqual(new Uint8Array(2));
  });

  it("are unreadable under another node's or key's name", async ({ expect }) => {
    const set = await make();
    await expect(requireReadable({ ...set, nodeId: OTHER_NODE }, wrapping)).rejects.toMatchObject(UNREADABLE);
    const [first, second, ...rest] = set.keys;
    if (first === undefined || second === undefined) throw new Error("no keys");
    const swapped = [{ ...second, name: first.name }, { ...first, name: second.name }, ...rest];
    await expect(requireReadable({ ...set, keys: swapped }, wrapping)).rejects.toMatchObject(UNREADABLE);
    await expect(requireReadable({ ...set, wrapping: "vault" }, wrapping)).rejects.toMatchObject(UNREADABLE);
  });

  it("are unreadable with another public key or type beside them, and another node's do not complete them", async ({
    expect,
  }) => {
    const set = await make();
    const other = await makeKeySet({ ...NODE, nodeId: OTHER_NODE }, DECLARED, wrapping, countingRandom().random);
    const [first, ...rest] = set.keys;
    if (first === undefined) throw new Error("no keys");
    for (const part of [{ publicKey: "00".repeat(32) }, { publicKey: null }, { type: "random" as const }]) {
      const keys = [{ ...first, ...part }, ...rest];
      await expect(requireReadable({ ...set, keys }, wrapping)).rejects.toMatchObject(UNREADABLE);
    }
    expect(isComplete(set, DECLARED)).toBe(true);
    expect(isComplete({ ...set, keys: rest }, DECLARED)).toBe(false);
    expect(isComplete({ ...set, keys: [{ ...first, type: "random" }, ...rest] }, DECLARED)).toBe(false);
    const mixed = { ...set, keys: [...rest, ...other.keys.slice(0, 1)] };
    await expect(requireReadable(mixed, wrapping)).rejects.toMatchObject(UNREADABLE);
  });
});

describe("the list of a node's keys", () => {
  it("is the same in whatever order they come", async ({ expect }) => {
    const set = await make();
    await fc.assert(
      fc.asyncProperty(fc.shuffledSubarray([...set.keys], { minLength: set.keys.length }), async (keys) => {
        await requireReadable({ ...set, keys }, wrapping);
      }),
      { numRuns: 10 },
    );
    await expect(requireReadable(set, wrapping)).resolves.toBeUndefined();
  });

  it("opens no DEK when a key was left out or put in twice, or its MAC is another or none", async ({ expect }) => {
    const set = await make();
    const { keysMac, ...rest } = set;
    const less = fc.subarray([...set.keys], { maxLength: set.keys.length - 1 }).map((keys) => ({ ...set, keys }));
    const more = fc.constantFrom(...set.keys).map((key) => ({ ...set, keys: [...set.keys, key] }));
    const otherMac = fc
      .oneof(fc.constantFrom("", keysMac.slice(2), `${keysMac}00`, "no hex"), fc.stringMatching(/^[0-9a-f]{64}$/))
      .map((mac) => ({ ...rest, keysMac: mac }));
    await fc.assert(
      fc.asyncProperty(fc.oneof(less, more, otherMac), async (forged) => {
        const used = withDek(forged, wrapping, async () => "used");
        await expect(used).rejects.toMatchObject(UNREADABLE);
      }),
    );
    expect(await withDek(set, wrapping, async () => "used")).toBe("used");
  });

  it("opens no DEK when any field of any key was altered, or is no hex", async ({ expect }) => {
    const set = await make();
    await fc.assert(
      fc.asyncProperty(
        fc.nat({ max: set.keys.length - 1 }),
        fc.constantFrom("name", "type", "source", "publicKey", "nonce", "ciphertext"),
        fc.oneof(fc.string(), fc.stringMatching(/^([0-9a-f]{2})*$/)),
        async (at, field, text) => {
          fc.pre(set.keys[at]?.[field] !== text);
          const keys = set.keys.map((key, index) => (index === at ? { ...key, [field]: text } : key));
          await expect(withDek({ ...set, keys }, wrapping, async () => "used")).rejects.toMatchObject(UNREADABLE);
        },
      ),
    );
  });

  it("takes no key of another making: not with its MAC, and not with its DEK", async ({ expect }) => {
    const set = await make();
    const { random } = countingRandom();
    random(1);
    const other = await make(random);
    const mixed = [...set.keys.slice(1), ...other.keys.slice(0, 1)];
    for (const forged of [
      { ...set, keys: mixed },
      { ...set, keys: mixed, keysMac: other.keysMac },
      { ...set, keys: other.keys, keysMac: other.keysMac },
      { ...set, wrappedDek: other.wrappedDek },
    ]) {
      await expect(requireReadable(forged, wrapping)).rejects.toMatchObject(UNREADABLE);
    }
    await requireReadable(other, wrapping);
  });

  it("is HMAC-SHA256 under HKDF of the DEK, as another implementation makes it", async ({ expect }) => {
    const dek = new Uint8Array(32).fill(5);
    const facts = { type: "ed25519", source: "generated", nonce: new Uint8Array(12).fill(2) };
    const keys = [
      { ...facts, name: "validator", publicKey: "ab".repeat(32), ciphertext: new Uint8Array(48).fill(3) },
      { ...facts, name: "jwt", type: "jwt-hex", publicKey: null, ciphertext: new Uint8Array(48).fill(4) },
    ];
    const label = (...parts: readonly string[]) => lengthened("orrery-node-key-v2", NODE_ID, ...parts);
    const [validator, jwt] = keys;
    if (validator === undefined || jwt === undefined) throw new Error("no keys");
    const bytes = lengthened(
      "orrery-node-keys-v1",
      NODE_ID,
      ...[label("jwt", "jwt-hex", "generated"), jwt.nonce, jwt.ciphertext],
      ...[label("validator", "ed25519", "generated", "ab".repeat(32)), validator.nonce, validator.ciphertext],
    );
    const key = new Uint8Array(hkdfSync("sha256", dek, "orrery-node-keys", "list-mac-v1", 32));
    expect(bytesToHex(await keysMac(dek, NODE_ID, keys))).toBe(createHmac("sha256", key).update(bytes).digest("hex"));
    expect(dek).toEqual(new Uint8Array(32).fill(5));
  });
});

/** Each part behind its length. */
function lengthened(...parts: readonly (string | Uint8Array)[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(part.length);
      return [length, Buffer.from(part)];
    }),
  );
}

describe("a backup of a node's keys", () => {
  it("brings them back as they were", async ({ expect }) => {
    const set = await make();
    const back = parseBackup(NODE_ID, backupText(set));
    expect(backupText(back)).toBe(backupText(set));
    expect(await filesOf(back)).toHaveLength(DECLARED.length);
    await requireReadable(back, wrapping);
  });

  it("is the same text whatever order the keys came in", async ({ expect }) => {
    const set = await make();
    expect(backupText({ ...set, keys: set.keys.toReversed() })).toBe(backupText(set));
  });

  it("is refused when it is none, another node's, or of another version", async ({ expect }) => {
    const text = backupText(await make());
    for (const bad of ["", "{}", text.slice(1), text.replace('"version":2', '"version":1')]) {
      expect(() => parseBackup(NODE_ID, bad)).toThrow(expect.objectContaining(UNREADABLE));
    }
    expect(() => parseBackup(OTHER_NODE, text)).toThrow(expect.objectContaining(UNREADABLE));
  });
});
