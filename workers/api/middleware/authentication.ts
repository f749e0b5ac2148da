import { createMiddleware } from "hono/factory";
import { findApiKey, touchApiKey } from "../../../db/api-keys.ts";
import { withDatabase } from "../../../db/client.ts";
import {
  type ApiKeyParts,
  equalInConstantTime,
  hashSecret,
  isLastUsedStale,
  parseApiKey,
  refusalOf,
} from "../../../domain/auth/api-key.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { OrreryError } from "../../../domain/errors.ts";
import type { ApiContext, ApiEnv, Principal } from "../context.ts";
import { clientAddress, enforceRateLimit } from "./rate-limit.ts";

const BEARER = /^Bearer +([^\s]+)$/i;

/** The hash that an unknown id is compared with, so that it costs what a known one costs. */
const NO_HASH = "0".repeat(64);

/**
 * Finds out who sends the request: the holder of an API key or, for the first key alone, of the bootstrap secret. Wrong
 * credentials count against the address they come from.
 */
export const authentication = createMiddleware<ApiEnv>(async (c, next) => {
  const token = BEARER.exec(c.req.header("authorization") ?? "")?.[1];
  try {
    c.set("principal", await principalOfToken(c, token));
  } catch (thrown) {
    await enforceRateLimit(c, `address:${clientAddress(c)}`);
    throw thrown;
  }
  await next();
});

async function principalOfToken(c: ApiContext, token: string | undefined): Promise<Principal> {
  if (token === undefined) throw new OrreryError("unauthenticated", "The request carries no API key.");
  const key = parseApiKey(token);
  if (key !== null) return apiKeyPrincipal(c, key);
  const bootstrap = c.get("config").BOOTSTRAP_SECRET;
  const secretHash = await hashSecret(token);
  if (bootstrap !== undefined && equalInConstantTime(secretHash, await hashSecret(bootstrap))) {
    return { kind: "bootstrap", secretHash };
  }
  throw new OrreryError("unauthenticated", "The API key is not valid.");
}

async function apiKeyPrincipal(c: ApiContext, key: ApiKeyParts): Promise<Principal> {
  const config = c.get("config");
  const now = Date.now();
  const hash = await hashSecret(key.secret);
  const row = await withDatabase(config, async (db) => {
    const found = await findApiKey(db, config.TENANT, key.id);
    const right = equalInConstantTime(hash, found?.secretHash ?? NO_HASH);
    if (found === null || !right) return null;
    const usable = refusalOf(validityOf(found), now) === null;
    if (usable && isLastUsedStale(found.lastUsedAt?.getTime() ?? null, now, DEFAULTS.api.lastUsedResolutionMs)) {
      await touchApiKey(db, found.id, new Date(now));
    }
    return found;
  });
  if (row === null) throw new OrreryError("unauthenticated", "The API key is not valid.");
  const refusal = refusalOf(validityOf(row), now);
  if (refusal === "api_key_expired") throw new OrreryError(refusal, "The API key has expired.");
  if (refusal !== null) throw new OrreryError(refusal, "The API key was revoked.");
  return { kind: "api_key", id: row.id, userId: row.userId, scopes: row.scopes };
}

function validityOf(row: { readonly expiresAt: Date | null; readonly revokedAt: Date | null }) {
  return { expiresAt: row.expiresAt?.getTime() ?? null, revokedAt: row.revokedAt?.getTime() ?? null };
}
