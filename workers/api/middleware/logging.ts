import { createMiddleware } from "hono/factory";
import { routePath } from "hono/route";
import { errorCodeOf } from "../../../domain/errors.ts";
import { log } from "../../../durable-objects/shared/log.ts";
import type { ApiEnv } from "../context.ts";

/** One line per request. It names the key by its id; headers and bodies, where secrets are, are never in it. */
export const logging = createMiddleware<ApiEnv>(async (c, next) => {
  const startedAt = Date.now();
  await next();
  const principal = c.get("principal");
  log(c.res.status >= 500 ? "error" : "info", "request", {
    correlation_id: c.get("correlationId"),
    trace_id: c.get("trace").traceId,
    method: c.req.method,
    route: routePath(c, -1),
    path: c.req.path,
    status: c.res.status,
    code: c.error === undefined ? null : (errorCodeOf(c.error) ?? "internal"),
    principal: principal === undefined ? null : principal.kind === "api_key" ? `key:${principal.id}` : "bootstrap",
    duration_ms: Date.now() - startedAt,
  });
});
