import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";
import { OrreryError } from "../errors.ts";
import type { EpochMs } from "../node/node.ts";
import { AES_KEY_BYTES, NONCE_BYTES } from "./aes-gcm.ts";
import type { DeclaredKey } from "./declared.ts";
import { type DekWrapping, requireWrapping } from "./dek-wrapping.ts";
import { decryptKey, encryptKey } from "./envelope.ts";
import { encodeSecret } from "./file-encoding.ts";
import { keysMac, requireAllKeys, type SealedKey } from "./key-list.ts";
import type { KeySource, KeyType } from "./key-type.ts";
import { makeKey, seedBytes } from "./make-key.ts";
import { withSecret } from "./secret.ts";

/** A node's keys as they are kept: the DEK wrapped, each key under the DEK. Bytes are hex. */
export interface NodeKeySet {
  readonly nodeId: string;
  /** The id of the way that the DEK is wrapped by. */
  readonly wrapping: string;
  readonly wrappedDek: string;
  readonly createdAt: EpochMs;
  readonly keys: readonly StoredKey[];
  /** Over all of `keys`, by the DEK; see keysMac. */
  readonly keysMac: string;
}

export interface StoredKey {
  readonly name: string;
  readonly type: KeyType;
  readonly source: KeySource;
  readonly publicKey: string | null;
  readonly nonce: string;
  /** Of the file's bytes: the key as it is encoded for the chain node. */
  readonly ciphertext: string;
}

/** Answers fresh random bytes; what is secret of them is overwritten after use. */
export type RandomBytes = (length: number) => Uint8Array;

/** Makes a node's DEK and keys. Nothing of them is left in the clear. */
export async function makeKeySet(
  node: { readonly nodeId: string; readonly createdAt: EpochMs },
  declared: readonly DeclaredKey[],
  wrapping: DekWrapping,
  random: RandomBytes,
): Promise<NodeKeySet> {
  return withSecret(random(AES_KEY_BYTES), async (dek) => {
    const wrapped = await wrapping.wrap(node.nodeId, dek, random(NONCE_BYTES));
    const keys: StoredKey[] = [];
    for (const key of declared) keys.push(await storedKey(node.nodeId, key, dek, random));
    const mac = await keysMac(dek, node.nodeId, keys.map(sealedKey));
    return { ...node, wrapping: wrapping.id, wrappedDek: bytesToHex(wrapped), keys, keysMac: bytesToHex(mac) };
  });
}

async function storedKey(
  nodeId: string,
  { name, type, bytes, file }: DeclaredKey,
  dek: Uint8Array,
  random: RandomBytes,
): Promise<StoredKey> {
  const { secret, publicKey } = await withSecret(random(seedBytes(type, bytes)), (seed) => makeKey(type, seed));
  const content = await withSecret(secret, () => encodeSecret(secret, file.encoding));
  return withSecret(content, async () => {
    const nonce = random(NONCE_BYTES);
    const source = "generated";
    const facts = { name, type, source, publicKey: publicKey === null ? null : bytesToHex(publicKey) } as const;
    const ciphertext = await encryptKey(dek, { nodeId, ...facts }, nonce, content);
    return { ...facts, nonce: bytesToHex(nonce), ciphertext: bytesToHex(ciphertext) };
  });
}

/**
 * Uses the node's DEK in the clear for as long as `use` lasts, and not before the keys beside it have been found to be all
 * that were made with it.
 * @throws key_unreadable
 */
export async function withDek<T>(
  { nodeId, wrapping, wrappedDek, keys, keysMac: mac }: NodeKeySet,
  known: DekWrapping,
  use: (dek: Uint8Array) => Promise<T>,
): Promise<T> {
  const dek = await requireWrapping(known, wrapping).unwrap(nodeId, storedBytes(wrappedDek));
  return withSecret(dek, async () => {
    await requireAllKeys(dek, nodeId, keys.map(sealedKey), storedBytes(mac));
    return use(dek);
  });
}

/** Opens every key once, so that what is kept or shown from now on is known to be true. @throws key_unreadable */
export async function requireReadable(set: NodeKeySet, known: DekWrapping): Promise<void> {
  await withDek(set, known, async (dek) => {
    for (const key of set.keys.map(sealedKey)) {
      await withSecret(await decryptKey(dek, { ...key, nodeId: set.nodeId }, key), () => undefined);
    }
  });
}

/** Whether every declared key is there, of its type. */
export function isComplete(set: NodeKeySet, declared: readonly DeclaredKey[]): boolean {
  return declared.every(({ name, type }) => set.keys.some((key) => key.name === name && key.type === type));
}

/** A stored key in bytes. @throws key_unreadable when they are none */
function sealedKey({ nonce, ciphertext, ...facts }: StoredKey): SealedKey {
  return { ...facts, nonce: storedBytes(nonce), ciphertext: storedBytes(ciphertext) };
}

function storedBytes(hex: string): Uint8Array {
  try {
    return hexToBytes(hex);
  } catch {
    throw new OrreryError("key_unreadable", "The node's keys are not stored as they were made.");
  }
}
