import { createMiddleware } from "hono/factory";
import { type ApiEnv, setHeader } from "../context.ts";

const HEADERS: Readonly<Record<string, string>> = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "strict-transport-security": "max-age=63072000; includeSubDomains",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/** Answers are data for programs: nothing may cache, frame, sniff or run them. A route may set its own value first. */
export const securityHeaders = createMiddleware<ApiEnv>(async (c, next) => {
  await next();
  for (const [name, value] of Object.entries(HEADERS)) if (!c.res.headers.has(name)) setHeader(c, name, value);
});
