import { z } from "@hono/zod-openapi";
import { uuidv7 } from "uuidv7";
import { ensureUser, insertApiKey, listApiKeys, useBootstrapSecret } from "../../../db/api-keys.ts";
import { type Transaction, withDatabase } from "../../../db/client.ts";
import { formatApiKey, hashSecret, makeApiKey } from "../../../domain/auth/api-key.ts";
import { SCOPES } from "../../../domain/auth/scopes.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { actorOf, type Principal, principalOf } from "../context.ts";
import { defineRoute, idempotencyHeaders, jsonRequest, jsonResponse, newRouter } from "../define-route.ts";
import { apiKeySchema, createdApiKeySchema, toApiKey } from "../documents/api-key.ts";
import { instant, line, uuid } from "../fields.ts";
import { once } from "../once.ts";
import { newestCursor, newestPage, pageOf, pageQuery, toPage } from "../pages.ts";

const newApiKey = z
  .strictObject({
    name: line(100),
    scopes: z.array(z.enum(SCOPES)).min(1).max(SCOPES.length),
    user_id: uuid
      .optional()
      .openapi({ description: "The customer whose rows the key may see; operators' keys have none." }),
    expires_at: instant.optional(),
  })
  .openapi("NewApiKey");

const create = defineRoute(
  { scope: "admin", bootstrap: true, errors: ["bootstrap_used"] },
  {
    method: "post",
    path: "/api/v1/admin/api-keys",
    tags: ["API keys"],
    summary: "Mint an API key; the deployment's bootstrap secret mints the first",
    request: { headers: idempotencyHeaders, body: jsonRequest(newApiKey) },
    responses: { 201: jsonResponse(createdApiKeySchema, "The key, shown this once.") },
  },
);

const list = defineRoute(
  { scope: "admin" },
  {
    method: "get",
    path: "/api/v1/admin/api-keys",
    tags: ["API keys"],
    summary: "List API keys, newest first",
    request: { query: z.strictObject(pageQuery) },
    responses: { 200: jsonResponse(pageOf(apiKeySchema), "A page of keys.") },
  },
);

const LIST = "api-keys";

export const apiKeyRoutes = newRouter()
  .openapi(create, async (c) => {
    const config = c.get("config");
    const body = c.req.valid("json");
    const principal = principalOf(c);
    assertMintable(body, principal, Date.now());
    const answer = await withDatabase(config, (db) =>
      once(c, db, createdApiKeySchema, async (tx, now) => {
        const key = makeApiKey(uuidv7(), crypto.getRandomValues(new Uint8Array(32)));
        await assertOwner(tx, config.TENANT, body, now);
        if (principal.kind === "bootstrap") await spendBootstrap(tx, principal.secretHash, key.id, now);
        const row = {
          id: key.id,
          tenant: config.TENANT,
          userId: body.user_id ?? null,
          name: body.name,
          secretHash: await hashSecret(key.secret),
          scopes: [...new Set(body.scopes)],
          createdAt: now,
          expiresAt: body.expires_at === undefined ? null : new Date(body.expires_at),
          revokedAt: null,
          lastUsedAt: null,
        };
        await insertApiKey(tx, row, { id: uuidv7(), actor: actorOf(c) });
        const document = toApiKey(row);
        return {
          status: 201,
          body: { ...document, key: formatApiKey(key) },
          replayBody: { ...document, key: null },
        };
      }),
    );
    return c.json(answer.body, 201);
  })
  .openapi(list, async (c) => {
    const config = c.get("config");
    const query = c.req.valid("query");
    const page = newestPage(LIST, query, (id) => /^[0-9a-f]{32}$/.test(id));
    const rows = await withDatabase(config, (db) => listApiKeys(db, config.TENANT, page));
    return c.json(toPage(rows, query.limit, toApiKey, newestCursor(LIST)), 200);
  });

type NewApiKey = z.output<typeof newApiKey>;

/** `admin` sees every customer, so it is never a customer's; and a first key that is not an operator's helps nobody. */
function assertMintable(body: NewApiKey, principal: Principal, now: number): void {
  const refuse = (path: string, message: string) => {
    throw new OrreryError("invalid_request", `body ${path}: ${message}`, { issues: [{ in: "body", path, message }] });
  };
  const admin = body.scopes.includes("admin");
  if (admin && body.user_id !== undefined) refuse("scopes", "a customer's key cannot have the scope admin");
  if (!admin && principal.kind === "bootstrap") refuse("scopes", "the first key must have the scope admin");
  if (body.expires_at !== undefined && Date.parse(body.expires_at) <= now) refuse("expires_at", "is in the past");
}

async function assertOwner(tx: Transaction, tenant: string, body: NewApiKey, now: Date): Promise<void> {
  if (body.user_id === undefined) return;
  const ours = await ensureUser(tx, { id: body.user_id, tenant, displayName: body.name, createdAt: now });
  if (!ours) throw new OrreryError("not_found", "There is no such customer.");
}

async function spendBootstrap(tx: Transaction, secretHash: string, apiKeyId: string, usedAt: Date): Promise<void> {
  const first = await useBootstrapSecret(tx, { secretHash, apiKeyId, usedAt });
  if (!first) throw new OrreryError("bootstrap_used", "The bootstrap secret was used before.");
}
