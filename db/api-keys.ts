import { and, desc, eq } from "drizzle-orm";
import { insertAudit } from "./audit.ts";
import type { Executor, Transaction } from "./client.ts";
import { type PageRequest, pageAfter } from "./page.ts";
import { apiKeys, bootstrapUses, users } from "./schema.ts";

export type ApiKeyRow = typeof apiKeys.$inferSelect;

export async function findApiKey(db: Executor, tenant: string, id: string): Promise<ApiKeyRow | null> {
  const [row] = await db
    .select()
    .from(apiKeys)
    .where(and(eq(apiKeys.tenant, tenant), eq(apiKeys.id, id)));
  return row ?? null;
}

/** Newest first. */
export function listApiKeys(db: Executor, tenant: string, page: PageRequest): Promise<ApiKeyRow[]> {
  return db
    .select()
    .from(apiKeys)
    .where(and(eq(apiKeys.tenant, tenant), pageAfter(page.after, apiKeys)))
    .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
    .limit(page.limit);
}

export async function insertApiKey(
  tx: Transaction,
  key: typeof apiKeys.$inferInsert,
  audit: { readonly id: string; readonly actor: string },
): Promise<void> {
  await tx.insert(apiKeys).values(key);
  await insertAudit(tx, {
    id: audit.id,
    tenant: key.tenant,
    actor: audit.actor,
    action: "api_key.create",
    entity: `api_key:${key.id}`,
    detail: { name: key.name, scopes: key.scopes, user_id: key.userId ?? null },
    occurredAt: key.createdAt,
  });
}

/** Makes sure that the customer is known; answers whether the id is this tenant's. */
export async function ensureUser(
  tx: Transaction,
  user: { readonly id: string; readonly tenant: string; readonly displayName: string; readonly createdAt: Date },
): Promise<boolean> {
  await tx.insert(users).values(user).onConflictDoNothing();
  const [row] = await tx.select({ tenant: users.tenant }).from(users).where(eq(users.id, user.id));
  return row?.tenant === user.tenant;
}

/** Marks the bootstrap secret as used; answers whether this was its first use. */
export async function useBootstrapSecret(
  tx: Transaction,
  use: { readonly secretHash: string; readonly apiKeyId: string; readonly usedAt: Date },
): Promise<boolean> {
  const rows = await tx
    .insert(bootstrapUses)
    .values(use)
    .onConflictDoNothing()
    .returning({ secretHash: bootstrapUses.secretHash });
  return rows.length === 1;
}

export async function touchApiKey(db: Executor, id: string, at: Date): Promise<void> {
  await db.update(apiKeys).set({ lastUsedAt: at }).where(eq(apiKeys.id, id));
}
