import { z } from "@hono/zod-openapi";
import { withDatabase } from "../../../db/client.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { repairProjections } from "../../repair-projections.ts";
import { defineRoute, idempotencyHeaders, jsonRequest, jsonResponse, newRouter } from "../define-route.ts";
import { uuid } from "../fields.ts";
import { once } from "../once.ts";
import { decodeCursor, encodeCursor } from "../pages.ts";

const request = z
  .strictObject({ cursor: z.string().max(512).optional() })
  .openapi("RepairRequest", { description: "Send `next_cursor` of the answer before until it is null." });

const report = z
  .strictObject({
    nodes: z.int().openapi({ description: "Nodes looked at." }),
    written: z.int().openapi({ description: "Copies written from their object." }),
    unreachable: z.int().openapi({ description: "Nodes whose object did not answer; the log names them." }),
    next_cursor: z.string().nullable(),
  })
  .openapi("RepairReport");

const repair = defineRoute(
  { scope: "admin" },
  {
    method: "post",
    path: "/api/v1/admin/repair/projections",
    tags: ["Operations"],
    summary: "Rebuild the copies of nodes in Postgres from the nodes' objects",
    request: { headers: idempotencyHeaders, body: jsonRequest(request, false) },
    responses: { 200: jsonResponse(report, "What was done.") },
  },
);

const LIST = "repair";

export const repairRoutes = newRouter().openapi(repair, async (c) => {
  const config = c.get("config");
  const { cursor } = c.req.valid("json");
  const after = cursor === undefined ? null : decodeCursor(LIST, z.tuple([uuid]), cursor)[0];
  // Rebuilding twice is harmless, so that only the request is remembered and a repeated one does it again.
  const remembered = z.strictObject({});
  await withDatabase(config, (db) => once(c, db, remembered, async () => ({ status: 200, body: {} })));
  const { nodes, written, unreachable, nextAfter } = await repairProjections(
    c.env,
    config,
    after,
    DEFAULTS.api.repairBatch,
  );
  const next = nextAfter === null ? null : encodeCursor(LIST, [nextAfter]);
  return c.json({ nodes, written, unreachable, next_cursor: next }, 200);
});
