import { and, desc, eq } from "drizzle-orm";
import { OrreryError } from "../domain/errors.ts";
import type { Executor, Transaction } from "./client.ts";
import { type PageRequest, pageAfter } from "./page.ts";
import { subscriptions } from "./schema.ts";
import { type Viewer, visibleTo } from "./viewer.ts";

export type SubscriptionRow = typeof subscriptions.$inferSelect;

export async function findSubscription(db: Executor, viewer: Viewer, id: string): Promise<SubscriptionRow | null> {
  const [row] = await db
    .select()
    .from(subscriptions)
    .where(and(visibleTo(viewer, subscriptions), eq(subscriptions.id, id)));
  return row ?? null;
}

/** Newest first. */
export function listSubscriptions(
  db: Executor,
  viewer: Viewer,
  filter: { readonly status?: string | undefined },
  page: PageRequest,
): Promise<SubscriptionRow[]> {
  return db
    .select()
    .from(subscriptions)
    .where(
      and(
        visibleTo(viewer, subscriptions),
        filter.status === undefined ? undefined : eq(subscriptions.status, filter.status),
        pageAfter(page.after, subscriptions),
      ),
    )
    .orderBy(desc(subscriptions.createdAt), desc(subscriptions.id))
    .limit(page.limit);
}

/**
 * Stores the subscription, or answers the unpaid one that the same customer asked for already (source 000, step 1).
 * @throws state_changed when that one was paid or dropped in the same instant
 */
export async function insertOrFindPending(
  tx: Transaction,
  subscription: SubscriptionRow,
): Promise<{ readonly row: SubscriptionRow; readonly created: boolean }> {
  const inserted = await tx.insert(subscriptions).values(subscription).onConflictDoNothing().returning();
  if (inserted[0] !== undefined) return { row: inserted[0], created: true };
  const [pending] = await tx
    .select()
    .from(subscriptions)
    .where(
      and(
        visibleTo(subscription, subscriptions),
        eq(subscriptions.chain, subscription.chain),
        eq(subscriptions.nodeType, subscription.nodeType),
        eq(subscriptions.durationDays, subscription.durationDays),
        eq(subscriptions.status, "pending_payment"),
      ),
    );
  if (pending === undefined) throw new OrreryError("state_changed", "The unpaid subscription has just changed.");
  return { row: pending, created: false };
}
