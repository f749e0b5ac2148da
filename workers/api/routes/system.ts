import { z } from "@hono/zod-openapi";
import { sql } from "drizzle-orm";
import { withDatabase } from "../../../db/client.ts";
import { readFleetMetrics } from "../../../db/fleet-metrics.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { errorText, log } from "../../../durable-objects/shared/log.ts";
import { defineRoute, jsonResponse, newRouter } from "../define-route.ts";
import { metricsText } from "../metrics-text.ts";

const alive = z.strictObject({ status: z.literal("ok") });
const componentSchema = z.enum(["ok", "failed"]);
const readiness = z.strictObject({
  status: componentSchema,
  components: z.strictObject({ database: componentSchema, chain_storage: componentSchema }),
});

const healthz = defineRoute(
  { scope: "public" },
  {
    method: "get",
    path: "/healthz",
    tags: ["System"],
    summary: "Whether the Worker runs",
    responses: { 200: jsonResponse(alive, "It runs.") },
  },
);

const readyz = defineRoute(
  { scope: "public" },
  {
    method: "get",
    path: "/readyz",
    tags: ["System"],
    summary: "Whether each component answers",
    responses: {
      200: jsonResponse(readiness, "All answer."),
      503: jsonResponse(readiness, "At least one does not."),
    },
  },
);

const metrics = defineRoute(
  { scope: "admin" },
  {
    method: "get",
    path: "/metrics",
    tags: ["System"],
    summary: "Metrics in Prometheus text; the fleet's come from Postgres",
    responses: { 200: { description: "Prometheus text.", content: { "text/plain": { schema: z.string() } } } },
  },
);

export const systemRoutes = newRouter()
  .openapi(healthz, (c) => c.json({ status: "ok" } as const, 200))
  .openapi(readyz, async (c) => {
    const config = c.get("config");
    const database = await answers("database", () => withDatabase(config, (db) => db.execute(sql`select 1`)));
    const chainStorage = await answers("chain_storage", () => c.env.CHAINS.list({ limit: 1 }));
    const ready = database === "ok" && chainStorage === "ok";
    const components = { database, chain_storage: chainStorage };
    return c.json({ status: ready ? "ok" : "failed", components } as const, ready ? 200 : 503);
  })
  .openapi(metrics, async (c) => {
    const config = c.get("config");
    const overdueBefore = new Date(Date.now() - DEFAULTS.node.overdueMs);
    const fleet = await withDatabase(config, (db) => readFleetMetrics(db, config.TENANT, overdueBefore));
    return c.text(await metricsText(fleet), 200);
  });

async function answers(component: string, ask: () => Promise<unknown>): Promise<"ok" | "failed"> {
  try {
    await ask();
    return "ok";
  } catch (thrown) {
    log("error", "component not ready", { component, error: errorText(thrown) });
    return "failed";
  }
}
