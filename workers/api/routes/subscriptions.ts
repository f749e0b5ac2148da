import { z } from "@hono/zod-openapi";
import { uuidv7 } from "uuidv7";
import { findChain } from "../../../db/chains.ts";
import { type Transaction, withDatabase } from "../../../db/client.ts";
import {
  findSubscription,
  insertOrFindPending,
  listSubscriptions,
  type SubscriptionRow,
} from "../../../db/subscriptions.ts";
import { allows } from "../../../domain/auth/scopes.ts";
import type { Config } from "../../../domain/config.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { choosePlacement } from "../../../domain/subscription/placement.ts";
import { SUBSCRIPTION_STATUSES } from "../../../domain/subscription/subscription.ts";
import { configuredProviders } from "../../../integrations/infrastructure/registry.ts";
import { type ApiContext, principalOf, viewerOf } from "../context.ts";
import { defineRoute, idempotencyHeaders, jsonRequest, jsonResponse, newRouter } from "../define-route.ts";
import { profileOf } from "../documents/chain.ts";
import { subscriptionSchema, toSubscription } from "../documents/subscription.ts";
import { slug, uuid } from "../fields.ts";
import { once } from "../once.ts";
import { newestCursor, newestPage, pageOf, pageQuery, toPage } from "../pages.ts";

const newSubscription = z
  .strictObject({
    chain: slug,
    node_type: slug,
    provider: slug.optional(),
    region: slug.optional(),
    duration_days: z.int().min(1).max(3_660).default(DEFAULTS.subscription.durationDays),
    status: z
      .enum(["pending_payment", "active"])
      .default("pending_payment")
      .openapi({ description: "`active` without payment is the operator's (scope admin)." }),
  })
  .openapi("NewSubscription");

const create = defineRoute(
  {
    scope: "subscriptions:write",
    errors: ["chain_not_found", "node_type_not_found", "provider_unavailable", "insufficient_scope"],
  },
  {
    method: "post",
    path: "/api/v1/subscriptions",
    tags: ["Subscriptions"],
    summary: "Subscribe to a node of a chain",
    request: { headers: idempotencyHeaders, body: jsonRequest(newSubscription) },
    responses: {
      201: jsonResponse(subscriptionSchema, "The new subscription."),
      200: jsonResponse(subscriptionSchema, "The same, asked for before and not yet paid."),
    },
  },
);

const list = defineRoute(
  { scope: "subscriptions:read" },
  {
    method: "get",
    path: "/api/v1/subscriptions",
    tags: ["Subscriptions"],
    summary: "List subscriptions, newest first",
    request: { query: z.strictObject({ ...pageQuery, status: z.enum(SUBSCRIPTION_STATUSES).optional() }) },
    responses: { 200: jsonResponse(pageOf(subscriptionSchema), "A page of subscriptions.") },
  },
);

const get = defineRoute(
  { scope: "subscriptions:read", errors: ["not_found"] },
  {
    method: "get",
    path: "/api/v1/subscriptions/{id}",
    tags: ["Subscriptions"],
    summary: "Show a subscription",
    request: { params: z.strictObject({ id: uuid }) },
    responses: { 200: jsonResponse(subscriptionSchema, "The subscription.") },
  },
);

const LIST = "subscriptions";

export const subscriptionRoutes = newRouter()
  .openapi(create, async (c) => {
    const config = c.get("config");
    const body = c.req.valid("json");
    if (body.status === "active") assertOperator(c);
    const { userId } = viewerOf(c);
    const answer = await withDatabase(config, (db) =>
      once(c, db, subscriptionSchema, async (tx, now) => {
        const wanted = await describe(tx, config, body, userId, now);
        const { row, created } = await insertOrFindPending(tx, wanted);
        return { status: created ? 201 : 200, body: toSubscription(row) };
      }),
    );
    return c.json(answer.body, answer.status === 200 ? 200 : 201);
  })
  .openapi(list, async (c) => {
    const query = c.req.valid("query");
    const rows = await withDatabase(c.get("config"), (db) =>
      listSubscriptions(db, viewerOf(c), { status: query.status }, newestPage(LIST, query)),
    );
    return c.json(toPage(rows, query.limit, toSubscription, newestCursor(LIST)), 200);
  })
  .openapi(get, async (c) => {
    const { id } = c.req.valid("param");
    const row = await withDatabase(c.get("config"), (db) => findSubscription(db, viewerOf(c), id));
    if (row === null) throw new OrreryError("not_found", `There is no subscription ${id}.`);
    return c.json(toSubscription(row), 200);
  });

function assertOperator(c: ApiContext): void {
  const principal = principalOf(c);
  if (principal.kind === "api_key" && allows(principal.scopes, "admin")) return;
  throw new OrreryError("insufficient_scope", "Only an operator may activate a subscription without payment.", {
    required_scope: "admin",
  });
}

/** The subscription's row, placed by the chain's profile. A paid one's end is set by the payment; an operator's has none. */
async function describe(
  tx: Transaction,
  config: Config,
  body: z.output<typeof newSubscription>,
  userId: string | null,
  now: Date,
): Promise<SubscriptionRow> {
  const chain = await findChain(tx, config.TENANT, body.chain);
  if (chain === null) throw new OrreryError("chain_not_found", `There is no chain ${body.chain}.`);
  const available = configuredProviders(config).map((provider) => provider.name);
  const placement = choosePlacement(profileOf(chain), body.node_type, body, available);
  return {
    id: uuidv7(),
    tenant: config.TENANT,
    userId,
    chain: body.chain,
    nodeType: body.node_type,
    ...placement,
    status: body.status,
    durationDays: body.duration_days,
    createdAt: now,
    expiresAt: null,
  };
}
