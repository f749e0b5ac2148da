import { createMiddleware } from "hono/factory";
import { routePath } from "hono/route";
import { Counter, Histogram, Registry } from "prom-client";
import type { ApiEnv } from "../context.ts";

/** Counts of this isolate alone: the platform runs many and ends them at will, so rates are per instance scraped. */
export const httpRegistry = new Registry();

const requests = new Counter({
  name: "orrery_http_requests_total",
  help: "HTTP requests answered by the isolate that was scraped.",
  labelNames: ["method", "route", "status"],
  registers: [httpRegistry],
});

const duration = new Histogram({
  name: "orrery_http_request_duration_seconds",
  help: "Time to answer, of the isolate that was scraped; the runtime's clock moves only at I/O.",
  labelNames: ["method", "route"],
  buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  registers: [httpRegistry],
});

/** Counts each request under its route, never under its path, so that the number of series stays bounded. */
export const metrics = createMiddleware<ApiEnv>(async (c, next) => {
  const startedAt = Date.now();
  await next();
  const route = routePath(c, -1);
  requests.inc({ method: c.req.method, route, status: String(c.res.status) });
  duration.observe({ method: c.req.method, route }, (Date.now() - startedAt) / 1000);
});
