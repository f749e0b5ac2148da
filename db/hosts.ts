import { and, asc, eq, exists, inArray, lt, ne, not, sql } from "drizzle-orm";
import type { HostOwner } from "../domain/saga/host-sweep.ts";
import type { Executor } from "./client.ts";
import { hosts, nodes, sagas } from "./schema.ts";

export type HostRow = typeof hosts.$inferSelect;

export interface HostMark {
  readonly tag: string;
  readonly tenant: string;
  readonly nodeId: string;
  readonly generation: number;
  readonly provider: string;
  readonly region: string;
  readonly instanceType: string;
}

/**
 * The durable "about to create" mark, committed before the provider is asked. Answers the row, and whether this call
 * wrote it: when it did not, an earlier try may have reached the provider, and what it made must be looked for first.
 */
export async function markHostCreating(
  db: Executor,
  mark: HostMark,
  now: Date,
): Promise<{ readonly row: HostRow; readonly first: boolean }> {
  const [inserted] = await db
    .insert(hosts)
    .values({ ...mark, status: "creating", createdAt: now, updatedAt: now })
    .onConflictDoNothing()
    .returning();
  if (inserted !== undefined) return { row: inserted, first: true };
  const [row] = await db.select().from(hosts).where(eq(hosts.tag, mark.tag));
  if (row === undefined) throw new Error(`The host row ${mark.tag} was deleted.`);
  return { row, first: false };
}

/** The host is there. Answers false when it is to be destroyed meanwhile, and so must not be used. */
export async function markHostRunning(
  db: Executor,
  tag: string,
  host: { readonly providerHostId: string; readonly address: string; readonly adopted: boolean },
  now: Date,
): Promise<boolean> {
  const marked = await db
    .update(hosts)
    .set({ ...host, status: "running", updatedAt: now })
    .where(and(eq(hosts.tag, tag), inArray(hosts.status, ["creating", "running"])))
    .returning({ tag: hosts.tag });
  return marked.length > 0;
}

/** From here on the host is only ever destroyed, by whoever gets to it. */
export async function markHostsDestroying(db: Executor, nodeId: string, now: Date): Promise<readonly HostRow[]> {
  await db
    .update(hosts)
    .set({ status: "destroying", updatedAt: now })
    .where(and(eq(hosts.nodeId, nodeId), inArray(hosts.status, ["creating", "running"])));
  return db
    .select()
    .from(hosts)
    .where(and(eq(hosts.nodeId, nodeId), ne(hosts.status, "destroyed")));
}

export async function markHostDestroyed(db: Executor, tag: string, now: Date): Promise<void> {
  await db
    .update(hosts)
    .set({ status: "destroyed", destroyedAt: now, updatedAt: now })
    .where(and(eq(hosts.tag, tag), eq(hosts.status, "destroying")));
}

export async function hostsOfNode(db: Executor, nodeId: string): Promise<readonly HostRow[]> {
  return db.select().from(hosts).where(eq(hosts.nodeId, nodeId)).orderBy(asc(hosts.generation));
}

/** Hosts that were marked for destruction before `before` and on whose node no saga is at work, oldest mark first. */
export async function hostsLeftDestroying(
  db: Executor,
  tenant: string,
  before: Date,
  limit: number,
): Promise<readonly HostRow[]> {
  const sagaAtWork = db
    .select({ one: sql`1` })
    .from(sagas)
    .where(and(eq(sagas.nodeId, hosts.nodeId), eq(sagas.status, "running")));
  return db
    .select()
    .from(hosts)
    .where(
      and(
        eq(hosts.tenant, tenant),
        eq(hosts.status, "destroying"),
        lt(hosts.updatedAt, before),
        not(exists(sagaAtWork)),
      ),
    )
    .orderBy(asc(hosts.updatedAt))
    .limit(limit);
}

/** What is known of the nodes that hosts at a provider are tagged for. */
export async function hostOwners(
  db: Executor,
  tenant: string,
  nodeIds: readonly string[],
): Promise<ReadonlyMap<string, HostOwner>> {
  if (nodeIds.length === 0) return new Map();
  const owned = and(eq(nodes.tenant, tenant), inArray(nodes.id, [...nodeIds]));
  const rows = await db.select({ id: nodes.id, state: nodes.state }).from(nodes).where(owned);
  const busy = await db
    .selectDistinct({ nodeId: sagas.nodeId })
    .from(sagas)
    .where(and(inArray(sagas.nodeId, [...nodeIds]), eq(sagas.status, "running")));
  const busyIds = new Set(busy.map(({ nodeId }) => nodeId));
  return new Map(
    rows.map(({ id, state }) => [
      id,
      { nodeId: id, ended: state === "terminated" || state === "failed", sagaRunning: busyIds.has(id) },
    ]),
  );
}
