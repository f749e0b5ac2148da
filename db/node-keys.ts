import { and, asc, eq, exists, inArray, isNotNull, isNull, lt, not, or, sql } from "drizzle-orm";
import { OrreryError } from "../domain/errors.ts";
import type { NodeKeySet, StoredKey } from "../domain/keys/key-set.ts";
import { KEY_SOURCES, KEY_TYPES } from "../domain/keys/key-type.ts";
import type { Executor, Transaction } from "./client.ts";
import { nodeDeks, nodeKeys, nodes, sagas } from "./schema.ts";

type NodeDekRow = typeof nodeDeks.$inferSelect;

/** What Postgres has of a node's keys. */
export interface NodeKeysRecord {
  /** Null when the node has none (yet, or any more). */
  readonly set: NodeKeySet | null;
  /** They have been deleted, or are about to be: for good. */
  readonly deleted: boolean;
  readonly backedUpAt: Date | null;
}

/** The node's keys with their ciphertexts. */
export async function findNodeKeys(db: Executor, nodeId: string): Promise<NodeKeysRecord> {
  const [dek] = await db.select().from(nodeDeks).where(eq(nodeDeks.nodeId, nodeId));
  return dek === undefined ? { set: null, deleted: false, backedUpAt: null } : recordOf(dek, await keysOf(db, nodeId));
}

/**
 * Adds what is missing of a set of keys, and overwrites nothing: keys under another DEK, or keys that have been deleted,
 * stay as they are. Answers what stands then; of many at once all get the first one's.
 */
export async function insertKeySet(tx: Transaction, tenant: string, set: NodeKeySet): Promise<NodeKeysRecord> {
  const { nodeId, wrapping, wrappedDek, keys, keysMac } = set;
  const createdAt = new Date(set.createdAt);
  const row = { nodeId, tenant, wrapping, wrappedDek, keysMac, createdAt };
  await tx.insert(nodeDeks).values(row).onConflictDoNothing();
  const [dek] = await tx.select().from(nodeDeks).where(eq(nodeDeks.nodeId, nodeId)).for("update");
  if (dek !== undefined && dek.deletedAt === null && dek.wrappedDek === wrappedDek && keys.length > 0) {
    const rows = keys.map((key) => ({ ...key, nodeId, createdAt }));
    await tx.insert(nodeKeys).values(rows).onConflictDoNothing();
  }
  return findNodeKeys(tx, nodeId);
}

/** The copy in R2 has been found to be the same. Answers false when the keys are being deleted meanwhile. */
export async function markKeysBackedUp(db: Executor, nodeId: string, now: Date): Promise<boolean> {
  const marked = await db
    .update(nodeDeks)
    .set({ backedUpAt: now })
    .where(and(eq(nodeDeks.nodeId, nodeId), isNull(nodeDeks.deletedAt)))
    .returning({ nodeId: nodeDeks.nodeId });
  return marked.length > 0;
}

/** From here on the node has no keys and gets none, whoever comes late with some. */
export async function markKeysDeleted(db: Executor, tenant: string, nodeId: string, now: Date): Promise<void> {
  await db
    .insert(nodeDeks)
    .values({ nodeId, tenant, createdAt: now, deletedAt: now })
    .onConflictDoUpdate({
      target: nodeDeks.nodeId,
      set: { deletedAt: sql`coalesce(${nodeDeks.deletedAt}, excluded.deleted_at)` },
    });
}

/** Deletes every byte of keys that are marked as deleted; answers how many keys there were. */
export async function eraseKeys(tx: Transaction, nodeId: string): Promise<number> {
  const [dek] = await tx
    .update(nodeDeks)
    .set({ wrapping: null, wrappedDek: null, keysMac: null, backedUpAt: null })
    .where(and(eq(nodeDeks.nodeId, nodeId), isNotNull(nodeDeks.deletedAt)))
    .returning({ nodeId: nodeDeks.nodeId });
  if (dek === undefined) return 0;
  const erased = await tx.delete(nodeKeys).where(eq(nodeKeys.nodeId, nodeId)).returning({ name: nodeKeys.name });
  return erased.length;
}

/**
 * Ended nodes on which no saga is at work and whose keys are still there, or were deleted before `settledBefore` and not
 * looked for since.
 */
export async function nodesWithKeysLeft(
  db: Executor,
  tenant: string,
  settledBefore: Date,
  limit: number,
): Promise<readonly string[]> {
  const sagaAtWork = db
    .select({ one: sql`1` })
    .from(sagas)
    .where(and(eq(sagas.nodeId, nodeDeks.nodeId), eq(sagas.status, "running")));
  const rows = await db
    .select({ nodeId: nodeDeks.nodeId })
    .from(nodeDeks)
    .innerJoin(nodes, eq(nodes.id, nodeDeks.nodeId))
    .where(
      and(
        eq(nodeDeks.tenant, tenant),
        inArray(nodes.state, ["terminated", "failed"]),
        isNull(nodeDeks.settledAt),
        or(isNotNull(nodeDeks.wrappedDek), lt(nodeDeks.deletedAt, settledBefore)),
        not(exists(sagaAtWork)),
      ),
    )
    .orderBy(asc(nodeDeks.createdAt))
    .limit(limit);
  return rows.map(({ nodeId }) => nodeId);
}

/** Nothing can come any more of what was deleted before `settledBefore`. */
export async function markKeysSettled(db: Executor, nodeId: string, settledBefore: Date, now: Date): Promise<void> {
  await db
    .update(nodeDeks)
    .set({ settledAt: now })
    .where(and(eq(nodeDeks.nodeId, nodeId), isNull(nodeDeks.wrappedDek), lt(nodeDeks.deletedAt, settledBefore)));
}

async function keysOf(db: Executor, nodeId: string): Promise<StoredKey[]> {
  const rows = await db.select().from(nodeKeys).where(eq(nodeKeys.nodeId, nodeId)).orderBy(asc(nodeKeys.name));
  return rows.map(({ name, type, source, publicKey, nonce, ciphertext }) => ({
    name,
    type: known(KEY_TYPES, type),
    source: known(KEY_SOURCES, source),
    publicKey,
    nonce,
    ciphertext,
  }));
}

function recordOf({ nodeId, wrapping, wrappedDek, createdAt, ...dek }: NodeDekRow, keys: StoredKey[]): NodeKeysRecord {
  const { backedUpAt, deletedAt } = dek;
  const isThere = wrapping !== null && wrappedDek !== null;
  // Keys whose MAC was taken away are keys that fail it, not no keys.
  const keysMac = dek.keysMac ?? "";
  return {
    set: isThere ? { nodeId, wrapping, wrappedDek, createdAt: createdAt.getTime(), keys, keysMac } : null,
    deleted: deletedAt !== null,
    backedUpAt,
  };
}

function known<T extends string>(values: readonly T[], stored: string): T {
  const value = values.find((each) => each === stored);
  if (value === undefined) throw new OrreryError("key_unreadable", `A key is stored as ${stored}, which is not known.`);
  return value;
}
