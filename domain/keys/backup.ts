import { z } from "zod";
import { canonicalJson } from "../canonical-json.ts";
import { OrreryError } from "../errors.ts";
import type { NodeKeySet } from "./key-set.ts";
import { KEY_SOURCES, KEY_TYPES } from "./key-type.ts";

/** The copy of a node's keys that is kept beside Postgres: what stands in Postgres, encrypted as it is there. */

const hex = z.string().regex(/^([0-9a-f]{2})*$/);

const backupSchema = z.strictObject({
  version: z.literal(2),
  node_id: z.uuid(),
  wrapping: z.string(),
  wrapped_dek: hex,
  created_at: z.int(),
  keys: z.array(
    z.strictObject({
      name: z.string(),
      type: z.enum(KEY_TYPES),
      source: z.enum(KEY_SOURCES),
      public_key: hex.nullable(),
      nonce: hex,
      ciphertext: hex,
    }),
  ),
  keys_mac: hex,
});

/** The same keys give the same text. */
export function backupText({ nodeId, wrapping, wrappedDek, createdAt, keys, keysMac }: NodeKeySet): string {
  const backup: z.input<typeof backupSchema> = {
    version: 2,
    node_id: nodeId,
    wrapping,
    wrapped_dek: wrappedDek,
    created_at: createdAt,
    keys: keys
      .map(({ publicKey, ...key }) => ({ ...key, public_key: publicKey }))
      .sort((one, other) => (one.name < other.name ? -1 : 1)),
    keys_mac: keysMac,
  };
  return canonicalJson(backup);
}

/** @throws key_unreadable when the text is no backup of this node's keys */
export function parseBackup(nodeId: string, text: string): NodeKeySet {
  const backup = backupSchema.safeParse(jsonOf(text));
  if (!backup.success || backup.data.node_id !== nodeId) {
    throw new OrreryError("key_unreadable", "The backup of the node's keys cannot be read.");
  }
  const { wrapping, wrapped_dek: wrappedDek, created_at: createdAt, keys, keys_mac: keysMac } = backup.data;
  return {
    nodeId,
    wrapping,
    wrappedDek,
    createdAt,
    keys: keys.map(({ public_key: publicKey, ...key }) => ({ ...key, publicKey })),
    keysMac,
  };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
