import { z } from "@hono/zod-openapi";
import { uuidv7 } from "uuidv7";
import { findChain } from "../../../db/chains.ts";
import { type Transaction, withDatabase } from "../../../db/client.ts";
import { insertNode, listNodes, type NodeRow, requireNode } from "../../../db/nodes.ts";
import { insertSaga } from "../../../db/sagas.ts";
import { findSubscription } from "../../../db/subscriptions.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { errorCodeOf, OrreryError } from "../../../domain/errors.ts";
import { NODE_STATES, type NodeView } from "../../../domain/node/node.ts";
import { sagaId } from "../../../domain/saga/ids.ts";
import { assertHostsNode } from "../../../domain/subscription/subscription.ts";
import { errorText, log } from "../../../durable-objects/shared/log.ts";
import { callNode } from "../../../durable-objects/shared/stubs.ts";
import { type ApiContext, actorOf, viewerOf } from "../context.ts";
import { defineRoute, idempotencyHeaders, jsonRequest, jsonResponse, newRouter } from "../define-route.ts";
import { nodeDetailSchema, nodeSchema, toNode, toNodeDetail } from "../documents/node.ts";
import { slug, uuid } from "../fields.ts";
import { once } from "../once.ts";
import { newestCursor, newestPage, pageOf, pageQuery, toPage } from "../pages.ts";
import { startSaga } from "../start-saga.ts";
import { withinTime } from "../time-limit.ts";

const newNode = z.strictObject({ subscription_id: uuid }).openapi("NewNode");

const filter = z.strictObject({
  ...pageQuery,
  state: z.enum(NODE_STATES).optional(),
  chain: slug.optional(),
  subscription_id: uuid.optional(),
});

const create = defineRoute(
  { scope: "nodes:write", errors: ["not_found", "subscription_not_active", "subscription_in_use", "chain_not_found"] },
  {
    method: "post",
    path: "/api/v1/nodes",
    tags: ["Nodes"],
    summary: "Create the node of a subscription; a saga provisions it",
    request: { headers: idempotencyHeaders, body: jsonRequest(newNode) },
    responses: { 202: jsonResponse(nodeSchema, "The node, now being provisioned.") },
  },
);

const list = defineRoute(
  { scope: "nodes:read" },
  {
    method: "get",
    path: "/api/v1/nodes",
    tags: ["Nodes"],
    summary: "List nodes, newest first",
    request: { query: filter },
    responses: { 200: jsonResponse(pageOf(nodeSchema), "A page of nodes.") },
  },
);

const get = defineRoute(
  { scope: "nodes:read", errors: ["node_not_found"] },
  {
    method: "get",
    path: "/api/v1/nodes/{id}",
    tags: ["Nodes"],
    summary: "Show a node as its object has it now",
    request: { params: z.strictObject({ id: uuid }) },
    responses: { 200: jsonResponse(nodeDetailSchema, "The node.") },
  },
);

const LIST = "nodes";

export const nodeRoutes = newRouter()
  .openapi(create, async (c) => {
    const { subscription_id } = c.req.valid("json");
    const answer = await withDatabase(c.get("config"), (db) =>
      once(c, db, nodeSchema, async (tx, now) => {
        const row = await createNode(tx, c, subscription_id, now);
        return { status: 202, body: toNode(row) };
      }),
    );
    if (!answer.replayed)
      await startSaga(c, "provision-node", sagaId("provision-node", answer.body.id), answer.body.id);
    return c.json(answer.body, 202);
  })
  .openapi(list, async (c) => {
    const query = c.req.valid("query");
    const { state, chain, subscription_id: subscriptionId } = query;
    const rows = await withDatabase(c.get("config"), (db) =>
      listNodes(db, viewerOf(c), { state, chain, subscriptionId }, newestPage(LIST, query)),
    );
    return c.json(toPage(rows, query.limit, toNode, newestCursor(LIST)), 200);
  })
  .openapi(get, async (c) => {
    const { id } = c.req.valid("param");
    const row = await withDatabase(c.get("config"), (db) => requireNode(db, viewerOf(c), id));
    return c.json(toNodeDetail(row, await liveView(c, id)), 200);
  });

/** The node's row and the saga that provisions it; together with the idempotency row or not at all. */
async function createNode(tx: Transaction, c: ApiContext, subscriptionId: string, now: Date): Promise<NodeRow> {
  const { TENANT: tenant } = c.get("config");
  const subscription = await findSubscription(tx, viewerOf(c), subscriptionId);
  if (subscription === null) throw new OrreryError("not_found", `There is no subscription ${subscriptionId}.`);
  assertHostsNode(subscription.status, subscription.expiresAt?.getTime() ?? null, now.getTime());
  const chain = await findChain(tx, tenant, subscription.chain);
  if (chain === null) throw new OrreryError("chain_not_found", `There is no chain ${subscription.chain}.`);
  const row = await insertNode(tx, {
    id: uuidv7(),
    tenant,
    userId: subscription.userId,
    subscriptionId,
    chain: chain.id,
    nodeType: subscription.nodeType,
    chainContentHash: chain.contentHash,
    provider: subscription.provider,
    region: subscription.region,
    createdAt: now,
    stateSince: now,
  });
  const saga = { id: sagaId("provision-node", row.id), tenant, workflow: "provision-node", nodeId: row.id } as const;
  await insertSaga(tx, { ...saga, requestedBy: actorOf(c) }, now);
  return row;
}

/** The object's own truth; null when it does not answer in time or the saga has not created it yet. */
async function liveView(c: ApiContext, nodeId: string): Promise<NodeView | null> {
  try {
    return await withinTime(
      callNode(c.env, nodeId, (node) => node.view()),
      DEFAULTS.api.liveViewMs,
    );
  } catch (thrown) {
    if (errorCodeOf(thrown) === "node_not_found") return null;
    log("warn", "node object did not answer", {
      correlation_id: c.get("correlationId"),
      node_id: nodeId,
      error: errorText(thrown),
    });
    return null;
  }
}
