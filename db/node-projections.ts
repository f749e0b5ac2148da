import { and, asc, eq, gt, isNull, lt, notInArray, or, sql } from "drizzle-orm";
import type { NodeEvent, NodeProjection } from "../domain/node/node.ts";
import type { Database, Executor } from "./client.ts";
import { auditLog, nodeEvents, nodes } from "./schema.ts";

/** How far the consumer has read a node's outbox. */
export interface OutboxCursor {
  readonly incarnation: number;
  readonly position: number;
}

/** Null when the node has no row. */
export async function readOutboxCursor(db: Executor, nodeId: string): Promise<OutboxCursor | null> {
  const [row] = await db
    .select({ incarnation: nodes.outboxIncarnation, position: nodes.outboxPosition })
    .from(nodes)
    .where(eq(nodes.id, nodeId));
  return row ?? null;
}

export interface OutboxBatch {
  readonly nodeId: string;
  /** Where the reader stood when it pulled; the batch counts only if it still stands there. */
  readonly from: OutboxCursor;
  /** The incarnation of the object that was read. */
  readonly incarnation: number;
  readonly events: readonly NodeEvent[];
  readonly projection: NodeProjection;
}

/**
 * Commits what was read: the cursor, the events and the projection in one transaction. Of two consumers that read the
 * same events one commits; the other's batch changes nothing. An older incarnation never moves a newer one's cursor.
 * @returns whether this batch was the one that counted
 */
export async function commitOutboxBatch(db: Database, batch: OutboxBatch, now: Date): Promise<boolean> {
  const last = batch.events.at(-1);
  const position = last?.position ?? (batch.incarnation === batch.from.incarnation ? batch.from.position : 0);
  return db.transaction(async (tx) => {
    const moved = await tx
      .update(nodes)
      .set({ outboxIncarnation: batch.incarnation, outboxPosition: position })
      .where(
        and(
          eq(nodes.id, batch.nodeId),
          eq(nodes.outboxIncarnation, batch.from.incarnation),
          eq(nodes.outboxPosition, batch.from.position),
          sql`${nodes.outboxIncarnation} <= ${batch.incarnation}`,
        ),
      )
      .returning({ tenant: nodes.tenant });
    const [node] = moved;
    if (node === undefined) return false;
    await insertEvents(tx, batch);
    await auditForced(tx, node.tenant, batch);
    await writeProjection(tx, batch.projection, now);
    return true;
  });
}

async function insertEvents(db: Executor, { nodeId, incarnation, events }: OutboxBatch): Promise<void> {
  if (events.length === 0) return;
  const rows = events.map(({ eventId, position, occurredAt, body }) => ({
    eventId,
    nodeId,
    incarnation,
    position,
    kind: body.kind,
    body,
    occurredAt: new Date(occurredAt),
  }));
  await db.insert(nodeEvents).values(rows).onConflictDoNothing();
}

/** A transition that skipped the table is an act that someone answers for; the audit row has the event's id, so it is one. */
async function auditForced(db: Executor, tenant: string, { nodeId, events }: OutboxBatch): Promise<void> {
  const rows = events.flatMap(({ eventId, occurredAt, body }) => {
    if (body.kind !== "state_changed" || !body.forced) return [];
    const { actor, from, to, reason, trigger } = body;
    return {
      id: eventId,
      tenant,
      actor: actor ?? trigger,
      action: "node.force_transition",
      entity: `node:${nodeId}`,
      detail: { from, to, reason },
      occurredAt: new Date(occurredAt),
    };
  });
  if (rows.length > 0) await db.insert(auditLog).values(rows).onConflictDoNothing();
}

/**
 * Copies a node's truth unless a newer one is there: a later incarnation always wins, then the higher state version. The
 * same version may be written again, because `nextDue` moves without one.
 * @returns whether the row took it
 */
export async function writeProjection(db: Executor, projection: NodeProjection, now: Date): Promise<boolean> {
  const { nodeId, incarnation, stateVersion, stateSince, downSince, nextDue, endpoints, ...rest } = projection;
  const written = await db
    .update(nodes)
    .set({
      ...rest,
      incarnation,
      stateVersion,
      endpoints,
      stateSince: new Date(stateSince),
      downSince: downSince === null ? null : new Date(downSince),
      nextDue: nextDue === null ? null : new Date(nextDue),
      touchedAt: now,
    })
    .where(
      and(
        eq(nodes.id, nodeId),
        or(
          lt(nodes.incarnation, incarnation),
          and(eq(nodes.incarnation, incarnation), sql`${nodes.stateVersion} <= ${stateVersion}`),
        ),
      ),
    )
    .returning({ id: nodes.id });
  return written.length > 0;
}

const ENDED = ["terminated", "failed"];

/** Nodes that should have acted before `dueBefore` and seem not to have; those first that were touched longest ago, so that broken ones starve no other. */
export async function nodesOverdue(db: Executor, tenant: string, dueBefore: Date, limit: number): Promise<string[]> {
  const rows = await db
    .select({ id: nodes.id })
    .from(nodes)
    .where(and(eq(nodes.tenant, tenant), notInArray(nodes.state, ENDED), lt(nodes.nextDue, dueBefore)))
    .orderBy(sql`${nodes.touchedAt} asc nulls first`, asc(nodes.nextDue))
    .limit(limit);
  return rows.map(({ id }) => id);
}

/** Nodes without news since `touchedBefore`, those first that were touched longest ago. */
export async function nodesToTouch(
  db: Executor,
  tenant: string,
  touchedBefore: Date,
  limit: number,
): Promise<string[]> {
  const rows = await db
    .select({ id: nodes.id })
    .from(nodes)
    .where(
      and(
        eq(nodes.tenant, tenant),
        notInArray(nodes.state, ENDED),
        or(isNull(nodes.touchedAt), lt(nodes.touchedAt, touchedBefore)),
      ),
    )
    .orderBy(sql`${nodes.touchedAt} asc nulls first`, asc(nodes.id))
    .limit(limit);
  return rows.map(({ id }) => id);
}

/** A node that could not be reached waits for its next turn too, so that one broken object never holds up the others. */
export async function markTouched(db: Executor, nodeId: string, now: Date): Promise<void> {
  await db.update(nodes).set({ touchedAt: now }).where(eq(nodes.id, nodeId));
}

/** One page of all nodes by id, for repair. */
export async function nodeIdsAfter(
  db: Executor,
  tenant: string,
  afterId: string | null,
  limit: number,
): Promise<string[]> {
  const rows = await db
    .select({ id: nodes.id })
    .from(nodes)
    .where(and(eq(nodes.tenant, tenant), ...(afterId === null ? [] : [gt(nodes.id, afterId)])))
    .orderBy(asc(nodes.id))
    .limit(limit);
  return rows.map(({ id }) => id);
}
