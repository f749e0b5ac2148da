import { z } from "@hono/zod-openapi";
import { type Transaction, withDatabase } from "../../../db/client.ts";
import { listNodeEvents, requireNode } from "../../../db/nodes.ts";
import { insertSaga, reopenSaga, sagasOfNode } from "../../../db/sagas.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { sagaId } from "../../../domain/saga/ids.ts";
import { type ApiContext, actorOf, viewerOf } from "../context.ts";
import { defineRoute, idempotencyHeaders, jsonRequest, jsonResponse, newRouter } from "../define-route.ts";
import { nodeSchema, toNode } from "../documents/node.ts";
import { nodeEventSchema, toNodeEvent } from "../documents/node-event.ts";
import { sagaSchema, toSaga } from "../documents/saga.ts";
import { uuid } from "../fields.ts";
import { once } from "../once.ts";
import { decodeCursor, encodeCursor, pageOf, pageQuery, toPage } from "../pages.ts";
import { startSaga } from "../start-saga.ts";

const params = z.strictObject({ id: uuid });

const events = defineRoute(
  { scope: "nodes:read", errors: ["node_not_found"] },
  {
    method: "get",
    path: "/api/v1/nodes/{id}/events",
    tags: ["Nodes"],
    summary: "What happened to a node, oldest first",
    request: { params, query: z.strictObject(pageQuery) },
    responses: { 200: jsonResponse(pageOf(nodeEventSchema), "A page of events.") },
  },
);

const saga = defineRoute(
  { scope: "nodes:read", errors: ["node_not_found"] },
  {
    method: "get",
    path: "/api/v1/nodes/{id}/saga",
    tags: ["Nodes"],
    summary: "The node's sagas with each step, oldest first",
    request: { params },
    responses: { 200: jsonResponse(pageOf(sagaSchema), "All its sagas; there are few.") },
  },
);

const terminate = defineRoute(
  { scope: "nodes:write", errors: ["node_not_found", "node_ended"] },
  {
    method: "post",
    path: "/api/v1/nodes/{id}/terminate",
    tags: ["Nodes"],
    summary: "Terminate a node; a saga destroys what it has",
    request: { params, headers: idempotencyHeaders, body: jsonRequest(z.strictObject({}), false) },
    responses: { 202: jsonResponse(nodeSchema, "The node, now being terminated.") },
  },
);

const LIST = "node-events";
const eventPosition = z.tuple([z.int().min(0), z.int().min(0)]);

export const nodeLifeRoutes = newRouter()
  .openapi(events, async (c) => {
    const { id } = c.req.valid("param");
    const { limit, cursor } = c.req.valid("query");
    const decoded = cursor === undefined ? null : decodeCursor(`${LIST}:${id}`, eventPosition, cursor);
    const after = decoded === null ? null : { incarnation: decoded[0], position: decoded[1] };
    const rows = await withDatabase(c.get("config"), async (db) => {
      await requireNode(db, viewerOf(c), id);
      return listNodeEvents(db, id, { limit: limit + 1, after });
    });
    const page = toPage(rows, limit, toNodeEvent, (last) =>
      encodeCursor(`${LIST}:${id}`, [last.incarnation, last.position]),
    );
    return c.json(page, 200);
  })
  .openapi(saga, async (c) => {
    const { id } = c.req.valid("param");
    const sagas = await withDatabase(c.get("config"), async (db) => {
      await requireNode(db, viewerOf(c), id);
      return sagasOfNode(db, id);
    });
    return c.json({ items: sagas.map((entry) => toSaga(entry.saga, entry.steps)), next_cursor: null }, 200);
  })
  .openapi(terminate, async (c) => {
    const { id } = c.req.valid("param");
    const answer = await withDatabase(c.get("config"), (db) =>
      once(c, db, nodeSchema, async (tx, now) => ({ status: 202, body: await requestTermination(tx, c, id, now) })),
    );
    if (!answer.replayed) await startSaga(c, "terminate-node", sagaId("terminate-node", id), id);
    return c.json(answer.body, 202);
  });

/** The row that says the node should go. One that failed is opened again: asking again is how a person retries it. */
async function requestTermination(tx: Transaction, c: ApiContext, nodeId: string, now: Date) {
  const row = await requireNode(tx, viewerOf(c), nodeId);
  if (row.state === "terminated" || row.state === "failed") {
    throw new OrreryError("node_ended", `The node has ${row.state === "failed" ? "failed" : "been terminated"}.`);
  }
  const id = sagaId("terminate-node", nodeId);
  const saga = { id, tenant: row.tenant, workflow: "terminate-node", nodeId, requestedBy: actorOf(c) } as const;
  if (!(await insertSaga(tx, saga, now))) await reopenSaga(tx, id, now);
  return toNode(row);
}
