import { and, eq, sql } from "drizzle-orm";
import { DEFAULTS } from "../domain/defaults.ts";
import { OrreryError } from "../domain/errors.ts";
import { type Database, sqlStateOf, type Transaction } from "./client.ts";
import { idempotencyKeys } from "./schema.ts";

export interface IdempotentRequest {
  readonly tenant: string;
  readonly principal: string;
  readonly key: string;
  /** SHA-256 of what was asked: method, path and body. */
  readonly requestHash: string;
  readonly at: Date;
}

export interface Answer<T> {
  readonly status: number;
  readonly body: T;
}

export interface Effect<T> extends Answer<T> {
  /** What a replay answers in place of `body`, where that shows a secret once. */
  readonly replayBody?: T;
}

export interface OnceAnswer<T> extends Answer<T> {
  readonly replayed: boolean;
}

const LOCK_NOT_AVAILABLE = "55P03";

/**
 * Runs `effect` once for ever per (tenant, principal, key), in one transaction with the row that remembers its answer.
 * A duplicate that arrives meanwhile waits for the first and replays its answer; an effect that throws leaves nothing.
 * @param read parses a stored answer
 * @param waitMs the longest wait for another transaction
 * @throws idempotency_key_reused for another request with the key; idempotency_in_progress when the wait was too long
 */
export async function oncePerKey<T>(
  db: Database,
  request: IdempotentRequest,
  read: (stored: unknown) => T,
  effect: (tx: Transaction) => Promise<Effect<T>>,
  waitMs: number = DEFAULTS.api.idempotencyWaitMs,
): Promise<OnceAnswer<T>> {
  try {
    return await db.transaction(async (tx) => {
      await tx.execute(sql`select set_config('lock_timeout', ${String(waitMs)}, true)`);
      if (!(await claim(tx, request))) return replay(tx, request, read);
      const { status, body, replayBody } = await effect(tx);
      await tx
        .update(idempotencyKeys)
        .set({ status, response: replayBody ?? body })
        .where(rowOf(request));
      return { status, body, replayed: false };
    });
  } catch (thrown) {
    if (sqlStateOf(thrown) !== LOCK_NOT_AVAILABLE) throw thrown;
    throw new OrreryError(
      "idempotency_in_progress",
      "Another request holds what this one needs.",
      {},
      { cause: thrown },
    );
  }
}

/** Whether the key is ours now. A concurrent claim of the same key blocks here until the other transaction has ended. */
async function claim(tx: Transaction, request: IdempotentRequest): Promise<boolean> {
  const { tenant, principal, key, requestHash, at } = request;
  const rows = await tx
    .insert(idempotencyKeys)
    .values({ tenant, principal, key, requestHash, status: 0, response: {}, createdAt: at })
    .onConflictDoNothing()
    .returning({ key: idempotencyKeys.key });
  return rows.length === 1;
}

async function replay<T>(
  tx: Transaction,
  request: IdempotentRequest,
  read: (stored: unknown) => T,
): Promise<OnceAnswer<T>> {
  const [row] = await tx.select().from(idempotencyKeys).where(rowOf(request));
  if (row === undefined) throw new OrreryError("idempotency_in_progress", "The first request has just been undone.");
  if (row.requestHash !== request.requestHash) {
    throw new OrreryError("idempotency_key_reused", "This Idempotency-Key belongs to another request.");
  }
  return { status: row.status, body: read(row.response), replayed: true };
}

function rowOf(request: IdempotentRequest) {
  return and(
    eq(idempotencyKeys.tenant, request.tenant),
    eq(idempotencyKeys.principal, request.principal),
    eq(idempotencyKeys.key, request.key),
  );
}
