import type { Transaction } from "../../db/client.ts";
import {
  eraseKeys,
  findNodeKeys,
  insertKeySet,
  markKeysBackedUp,
  markKeysDeleted,
  type NodeKeysRecord,
} from "../../db/node-keys.ts";
import { OrreryError } from "../../domain/errors.ts";
import { backupText, parseBackup } from "../../domain/keys/backup.ts";
import type { DeclaredKey } from "../../domain/keys/declared.ts";
import { masterWrapping } from "../../domain/keys/dek-wrapping.ts";
import { isComplete, makeKeySet, type NodeKeySet, requireReadable } from "../../domain/keys/key-set.ts";
import type { KeyDeps } from "./deps.ts";

/** How a node came to the keys that it has. */
export interface KeptKeys {
  readonly set: NodeKeySet;
  readonly origin: "kept" | "restored" | "generated";
}

/**
 * Gives a node its keys, once for ever: those that are there stay, those that only the backup has come back, and only a
 * node of which neither is there gets new ones. However often and at once this runs, all get the same.
 * @throws saga_superseded when the node's keys have been deleted, keys_conflict, keys_missing, key_unreadable
 */
export async function ensureKeys(deps: KeyDeps, nodeId: string, declared: readonly DeclaredKey[]): Promise<KeptKeys> {
  const kept = await findOrMake(deps, nodeId, declared);
  await backUp(deps, kept.set);
  return kept;
}

async function findOrMake(deps: KeyDeps, nodeId: string, declared: readonly DeclaredKey[]): Promise<KeptKeys> {
  const { set } = requireNotDeleted(await deps.database((db) => findNodeKeys(db, nodeId)));
  if (set !== null && isComplete(set, declared)) {
    // Before it is copied to where only what was found to be true is kept.
    await requireReadable(set, wrappingOf(deps));
    return { set, origin: "kept" };
  }
  const backup = await deps.keyBackups.read(nodeId);
  if (backup !== null) return { set: await restoreFrom(deps, nodeId, declared, backup), origin: "restored" };
  if (set !== null) throw new OrreryError("keys_missing", "Some of the node's keys are gone, and there is no backup.");
  const createdAt = deps.now();
  const made = await makeKeySet({ nodeId, createdAt }, declared, wrappingOf(deps), deps.random);
  return { set: await insert(deps, made), origin: "generated" };
}

/**
 * The backup brought back into Postgres where keys are missing; the same keys again change nothing.
 * @param alongside commits with it
 * @throws key_backup_missing, key_unreadable when it is not all of the node's keys as they were made, keys_conflict when
 * other keys are there, node_ended when they were deleted
 */
export async function restoreKeys(
  deps: KeyDeps,
  nodeId: string,
  declared: readonly DeclaredKey[],
  alongside: (tx: Transaction) => Promise<void>,
): Promise<NodeKeySet> {
  const { deleted } = await deps.database((db) => findNodeKeys(db, nodeId));
  if (deleted) throw new OrreryError("node_ended", "The node's keys have been deleted with it.");
  const backup = await deps.keyBackups.read(nodeId);
  if (backup === null) throw new OrreryError("key_backup_missing", "There is no backup of the node's keys.");
  const set = await restoreFrom(deps, nodeId, declared, backup, alongside);
  await backUp(deps, set);
  return set;
}

/** Only what can be opened is brought back, and nothing if a key that the chain declares is not in it. */
async function restoreFrom(
  deps: KeyDeps,
  nodeId: string,
  declared: readonly DeclaredKey[],
  backup: string,
  alongside: (tx: Transaction) => Promise<void> = async () => undefined,
): Promise<NodeKeySet> {
  const set = parseBackup(nodeId, backup);
  await requireReadable(set, wrappingOf(deps));
  if (!isComplete(set, declared)) {
    throw new OrreryError("key_unreadable", "The backup lacks keys that the node's chain declares.");
  }
  return deps.database((db) =>
    db.transaction(async (tx) => {
      const record = requireNotDeleted(await insertKeySet(tx, deps.config.TENANT, set));
      if (record.set === null || backupText(record.set) !== backupText(set)) {
        throw new OrreryError("keys_conflict", "The node has other keys than its backup.");
      }
      await alongside(tx);
      return record.set;
    }),
  );
}

/** The first set that was inserted wins. */
async function insert(deps: KeyDeps, made: NodeKeySet): Promise<NodeKeySet> {
  const record = await deps.database((db) => db.transaction((tx) => insertKeySet(tx, deps.config.TENANT, made)));
  const { set } = requireNotDeleted(record);
  if (set === null) throw new Error("An insert left no keys.");
  return set;
}

/**
 * The copy is made of what stands in Postgres and read back. One that is there already must be the same; one that was
 * written while the keys were being deleted is taken away again.
 */
async function backUp(deps: KeyDeps, set: NodeKeySet): Promise<void> {
  const { keyBackups } = deps;
  const text = backupText(set);
  await keyBackups.create(set.nodeId, text);
  const stored = await keyBackups.read(set.nodeId);
  if (stored !== null && stored !== text) {
    throw new OrreryError("keys_conflict", "The backup holds other keys than the node has.");
  }
  const marked = await deps.database((db) => markKeysBackedUp(db, set.nodeId, new Date(deps.now())));
  if (!marked) {
    await keyBackups.remove(set.nodeId);
    throw deleted();
  }
  // Worth another try: what was written cannot be read.
  if (stored === null) throw new Error("The backup of the node's keys was not kept.");
}

/**
 * Deletes a node's keys for good, the backup first, and looks whether anything is left. Answers how many there were.
 * @throws cleanup_incomplete, worth another try
 */
export async function deleteKeys(deps: KeyDeps, nodeId: string): Promise<number> {
  const { keyBackups } = deps;
  await deps.database((db) => markKeysDeleted(db, deps.config.TENANT, nodeId, new Date(deps.now())));
  await keyBackups.remove(nodeId);
  const erased = await deps.database((db) => db.transaction((tx) => eraseKeys(tx, nodeId)));
  const { set } = await deps.database((db) => findNodeKeys(db, nodeId));
  if (set === null && (await keyBackups.read(nodeId)) === null) return erased;
  throw new OrreryError("cleanup_incomplete", "Keys of the node were still there.", { retryable: true });
}

function wrappingOf({ config }: KeyDeps) {
  return masterWrapping(config.MASTER_SECRET);
}

function requireNotDeleted(record: NodeKeysRecord): NodeKeysRecord {
  if (record.deleted) throw deleted();
  return record;
}

function deleted(): OrreryError {
  return new OrreryError("saga_superseded", "The node's keys are being deleted.");
}
