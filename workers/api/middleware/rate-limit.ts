import { createMiddleware } from "hono/factory";
import { OrreryError } from "../../../domain/errors.ts";
import type { ApiContext, ApiEnv } from "../context.ts";

/** The period of the API_RATE_LIMITER binding. */
const PERIOD_S = 60;

/** Counts the request against whoever sent it: a key where there is one, else the address. */
export const rateLimit = createMiddleware<ApiEnv>(async (c, next) => {
  const principal = c.get("principal");
  await enforceRateLimit(c, principal?.kind === "api_key" ? `key:${principal.id}` : `address:${clientAddress(c)}`);
  await next();
});

/** @throws rate_limited with the seconds after which the window has passed */
export async function enforceRateLimit(c: ApiContext, key: string): Promise<void> {
  const { success } = await c.env.API_RATE_LIMITER.limit({ key: `${c.get("config").TENANT}:${key}` });
  if (success) return;
  throw new OrreryError("rate_limited", "Too many requests.", { retry_after: PERIOD_S });
}

/** Set by the edge and not by the client; absent in local development. */
export function clientAddress(c: ApiContext): string {
  return c.req.header("cf-connecting-ip") ?? "unknown";
}
