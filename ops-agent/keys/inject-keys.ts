import { bytesToHex } from "@noble/hashes/utils.js";
import { OrreryError } from "../../domain/errors.ts";
import { openDek } from "../../domain/keys/dek-sealing.ts";
import { decryptKey } from "../../domain/keys/envelope.ts";
import { requireAllKeys, type SealedKey } from "../../domain/keys/key-list.ts";
import { isKeyFileMode } from "../../domain/keys/key-type.ts";
import { withSecret } from "../../domain/keys/secret.ts";
import type { EncryptedKey, InjectKeysPayload } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { DataDir } from "../recipe/data-dir.ts";
import { accountOf } from "./accounts.ts";
import { type KeyFile, writeKeyFiles } from "./key-files.ts";

/** Which installation the keys must be sealed to, and where they go. */
export interface KeyHost {
  readonly nodeId: string;
  readonly installationId: string;
  /** X25519, 32 bytes; not to be written to. */
  readonly sealingSecretKey: () => Uint8Array;
  readonly dataDir: DataDir;
}

/**
 * INJECT_KEYS: finds that these are all of the node's keys as they were made, and decrypts them, before it writes any; and
 * overwrites what it held in the clear, however it ends. The same keys again are a success.
 * @throws key_unreadable, key_injection_failed, disk_full, path_outside_data_dir
 */
export async function injectKeys(
  { sealedDek, keys, keysMac }: InjectKeysPayload,
  { nodeId, installationId, sealingSecretKey, dataDir }: KeyHost,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const places = await placesOf(keys);
  const contents: Uint8Array[] = [];
  try {
    const dek = await openDek(sealedDek, { nodeId, installationId }, sealingSecretKey());
    await withSecret(dek, async () => {
      const sealed = keys.map(sealedKey);
      await requireAllKeys(dek, nodeId, sealed, keysMac);
      for (const key of sealed) contents.push(await decryptKey(dek, { ...key, nodeId }, key));
    });
    signal.throwIfAborted();
    await writeKeyFiles(
      dataDir,
      contents.flatMap((content, index) => {
        const place = places[index];
        return place === undefined ? [] : [{ ...place, content }];
      }),
    );
  } finally {
    for (const content of contents) content.fill(0);
  }
  return { keys: keys.map(({ name }) => name).join(",") };
}

function sealedKey({ name, keyType: type, source, publicKey, nonce, ciphertext }: EncryptedKey): SealedKey {
  return { name, type, source, publicKey: publicKey.length === 0 ? null : bytesToHex(publicKey), nonce, ciphertext };
}

/** Everything that can be refused without a key in the clear. */
async function placesOf(keys: readonly EncryptedKey[]): Promise<readonly Omit<KeyFile, "content">[]> {
  if (new Set(keys.map(({ path }) => path)).size < keys.length) {
    throw new OrreryError("key_injection_failed", "Two keys have the same path.");
  }
  return Promise.all(
    keys.map(async ({ name, path, mode, owner }) => {
      if (!isKeyFileMode(mode)) {
        throw new OrreryError("key_injection_failed", `The key ${name} cannot have the mode ${mode.toString(8)}.`);
      }
      return { name, path, mode, owner: owner === "" ? null : await accountOf(owner) };
    }),
  );
}
