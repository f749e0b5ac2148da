import { and, asc, eq, gt } from "drizzle-orm";
import type { Executor } from "./client.ts";
import { chains } from "./schema.ts";

export type ChainRow = typeof chains.$inferSelect;

export async function findChain(db: Executor, tenant: string, id: string): Promise<ChainRow | null> {
  const [row] = await db
    .select()
    .from(chains)
    .where(and(eq(chains.tenant, tenant), eq(chains.id, id)));
  return row ?? null;
}

/** In the order of their ids, after `after`. */
export function listChains(db: Executor, tenant: string, limit: number, after: string | null): Promise<ChainRow[]> {
  return db
    .select()
    .from(chains)
    .where(and(eq(chains.tenant, tenant), after === null ? undefined : gt(chains.id, after)))
    .orderBy(asc(chains.id))
    .limit(limit);
}

/** Points the chain at its newly pushed version. */
export async function putChain(db: Executor, chain: ChainRow): Promise<void> {
  const { contentHash, displayName, profile, pushedAt } = chain;
  await db
    .insert(chains)
    .values(chain)
    .onConflictDoUpdate({
      target: [chains.tenant, chains.id],
      set: { contentHash, displayName, profile, pushedAt },
    });
}
