import type { Transaction } from "./client.ts";
import { auditLog } from "./schema.ts";

/** Notes an act of a person, with what it did. */
export async function insertAudit(tx: Transaction, act: typeof auditLog.$inferInsert): Promise<void> {
  await tx.insert(auditLog).values(act);
}
