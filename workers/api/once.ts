import type { z } from "@hono/zod-openapi";
import type { Database, Transaction } from "../../db/client.ts";
import { type Effect, type OnceAnswer, oncePerKey } from "../../db/idempotency.ts";
import { OrreryError } from "../../domain/errors.ts";
import { type ApiContext, principalOf } from "./context.ts";

/**
 * Does a POST once for ever per Idempotency-Key, in one transaction with the row that remembers its answer.
 * @param stored how the remembered answer is read when the request is repeated
 * @throws idempotency_key_required, idempotency_key_reused, idempotency_in_progress
 */
export async function once<T>(
  c: ApiContext,
  db: Database,
  stored: z.ZodType<T>,
  effect: (tx: Transaction, now: Date) => Promise<Effect<T>>,
): Promise<OnceAnswer<T>> {
  const key = c.req.header("idempotency-key");
  if (key === undefined) throw new OrreryError("idempotency_key_required", "The Idempotency-Key header is missing.");
  const now = new Date();
  const request = {
    tenant: c.get("config").TENANT,
    principal: idempotencyPrincipal(c),
    key,
    requestHash: await requestHash(c),
    at: now,
  };
  const answer = await oncePerKey(
    db,
    request,
    (value) => stored.parse(value),
    (tx) => effect(tx, now),
  );
  if (answer.replayed) c.header("idempotency-replayed", "true");
  return answer;
}

function idempotencyPrincipal(c: ApiContext): string {
  const principal = principalOf(c);
  return principal.kind === "api_key" ? `key:${principal.id}` : `bootstrap:${principal.secretHash}`;
}

async function requestHash(c: ApiContext): Promise<string> {
  const text = `${c.req.method}\n${c.req.path}\n${await c.req.text()}`;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
