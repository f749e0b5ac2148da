import { and, asc, desc, eq, gt, or } from "drizzle-orm";
import { OrreryError } from "../domain/errors.ts";
import { type Executor, isUniqueViolation, type Transaction } from "./client.ts";
import { type PageRequest, pageAfter } from "./page.ts";
import { nodeEvents, nodes } from "./schema.ts";
import { type Viewer, visibleTo } from "./viewer.ts";

export type NodeRow = typeof nodes.$inferSelect;
export type NodeEventRow = typeof nodeEvents.$inferSelect;

export interface NodeFilter {
  readonly state?: string | undefined;
  readonly chain?: string | undefined;
  readonly subscriptionId?: string | undefined;
}

/** @throws node_not_found also for a node that is not the viewer's */
export async function requireNode(db: Executor, viewer: Viewer, id: string): Promise<NodeRow> {
  const [row] = await db
    .select()
    .from(nodes)
    .where(and(visibleTo(viewer, nodes), eq(nodes.id, id)));
  if (row === undefined) throw new OrreryError("node_not_found", `There is no node ${id}.`);
  return row;
}

/** Newest first. */
export function listNodes(db: Executor, viewer: Viewer, filter: NodeFilter, page: PageRequest): Promise<NodeRow[]> {
  return db
    .select()
    .from(nodes)
    .where(
      and(
        visibleTo(viewer, nodes),
        filter.state === undefined ? undefined : eq(nodes.state, filter.state),
        filter.chain === undefined ? undefined : eq(nodes.chain, filter.chain),
        filter.subscriptionId === undefined ? undefined : eq(nodes.subscriptionId, filter.subscriptionId),
        pageAfter(page.after, nodes),
      ),
    )
    .orderBy(desc(nodes.createdAt), desc(nodes.id))
    .limit(page.limit);
}

/** @throws subscription_in_use when the subscription has a node that has not ended */
export async function insertNode(tx: Transaction, node: typeof nodes.$inferInsert): Promise<NodeRow> {
  try {
    const [row] = await tx.insert(nodes).values(node).returning();
    if (row === undefined) throw new Error("An insert answered no row.");
    return row;
  } catch (thrown) {
    if (!isUniqueViolation(thrown, "nodes_live_subscription_idx")) throw thrown;
    throw new OrreryError("subscription_in_use", "The subscription already has a node.", {}, { cause: thrown });
  }
}

export interface EventPosition {
  readonly incarnation: number;
  readonly position: number;
}

/** Oldest first, as the node's outbox had them. */
export function listNodeEvents(
  db: Executor,
  nodeId: string,
  page: { readonly limit: number; readonly after: EventPosition | null },
): Promise<NodeEventRow[]> {
  return db
    .select()
    .from(nodeEvents)
    .where(and(eq(nodeEvents.nodeId, nodeId), eventsAfter(page.after)))
    .orderBy(asc(nodeEvents.incarnation), asc(nodeEvents.position))
    .limit(page.limit);
}

function eventsAfter(after: EventPosition | null) {
  if (after === null) return undefined;
  return or(
    gt(nodeEvents.incarnation, after.incarnation),
    and(eq(nodeEvents.incarnation, after.incarnation), gt(nodeEvents.position, after.position)),
  );
}
