import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";
import fc from "fast-check";
import { describe, it } from "vitest";
import { backupText, parseBackup } from "../../../domain/keys/backup.ts";
import { masterWrapping } from "../../../domain/keys/dek-wrapping.ts";
import { decryptKey } from "../../../domain/keys/envelope.ts";
import { encodeSecret } from "../../../domain/keys/file-encoding.ts";
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
    for (const bad of ["", "{}", text.slice(1), text.replace('"version":1', '"version":2')]) {
      expect(() => parseBackup(NODE_ID, bad)).toThrow(expect.objectContaining(UNREADABLE));
    }
    expect(() => parseBackup(OTHER_NODE, text)).toThrow(expect.objectContaining(UNREADABLE));
  });
});
