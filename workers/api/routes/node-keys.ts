import { z } from "@hono/zod-openapi";
import { uuidv7 } from "uuidv7";
import { insertAudit } from "../../../db/audit.ts";
import { type Transaction, withDatabase } from "../../../db/client.ts";
import { findNodeKeys } from "../../../db/node-keys.ts";
import { type NodeRow, requireNode } from "../../../db/nodes.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { declaredKeys } from "../../../domain/keys/declared.ts";
import { masterWrapping } from "../../../domain/keys/dek-wrapping.ts";
import { requireReadable } from "../../../domain/keys/key-set.ts";
import type { CommandPayload } from "../../../domain/node/command.ts";
import { readChainFiles } from "../../chain-files.ts";
import { keyDeps } from "../../node-keys/deps.ts";
import { injectPayload } from "../../node-keys/inject-payload.ts";
import { restoreKeys } from "../../node-keys/keep.ts";
import { callObject } from "../call-object.ts";
import { type ApiContext, actorOf, viewerOf } from "../context.ts";
import { defineRoute, idempotencyHeaders, jsonRequest, jsonResponse, newRouter } from "../define-route.ts";
import { commandSchema, toCommand } from "../documents/command.ts";
import { nodeKeySchema, toNodeKey } from "../documents/node-key.ts";
import { uuid } from "../fields.ts";
import { once } from "../once.ts";
import { pageOf } from "../pages.ts";

const params = z.strictObject({ id: uuid });
const nothing = jsonRequest(z.strictObject({}), false);

const list = defineRoute(
  { scope: "nodes:read", errors: ["node_not_found", "key_unreadable"] },
  {
    method: "get",
    path: "/api/v1/nodes/{id}/keys",
    tags: ["Keys"],
    summary: "What the node's keys are, never their bytes",
    request: { params },
    responses: { 200: jsonResponse(pageOf(nodeKeySchema), "All its keys, by name; there are few.") },
  },
);

const restore = defineRoute(
  {
    scope: "admin",
    errors: ["node_not_found", "node_ended", "key_backup_missing", "keys_conflict", "key_unreadable"],
  },
  {
    method: "post",
    path: "/api/v1/admin/nodes/{id}/keys/restore",
    tags: ["Keys"],
    summary: "Bring a node's keys back into Postgres from their backup; nothing that is there is overwritten",
    request: { params, headers: idempotencyHeaders, body: nothing },
    responses: { 200: jsonResponse(pageOf(nodeKeySchema), "The node's keys as they are now.") },
  },
);

const inject = defineRoute(
  {
    scope: "admin",
    errors: [
      "node_not_found",
      "node_ended",
      "node_terminating",
      "no_installation",
      "keys_missing",
      "keys_conflict",
      "key_unreadable",
      "inputs_unsupported",
    ],
  },
  {
    method: "post",
    path: "/api/v1/nodes/{id}/keys/inject",
    tags: ["Keys"],
    summary: "Seal the node's keys to its agent anew and have it write them again",
    request: { params, headers: idempotencyHeaders, body: nothing },
    responses: { 202: jsonResponse(commandSchema, "The command that brings them.") },
  },
);

/** Bringing the same keys back twice is harmless: of a restoration only the request is remembered. */
const done = z.strictObject({});
const remembered = z.strictObject({ command_id: uuid });

export const nodeKeyRoutes = newRouter()
  .openapi(list, async (c) => c.json(await keysOf(c, c.req.valid("param").id), 200))
  .openapi(restore, async (c) => {
    const config = c.get("config");
    const { id } = c.req.valid("param");
    const node = await withDatabase(config, async (db) => {
      await once(c, db, done, async (tx) => {
        await requireNode(tx, viewerOf(c), id);
        return { status: 200, body: {} };
      });
      return requireNode(db, viewerOf(c), id);
    });
    const declared = await keysDeclaredFor(c, node);
    await restoreKeys(keyDeps(c.env, config), id, declared, (tx) => audit(tx, c, "node_keys.restore", id));
    return c.json(await keysOf(c, id), 200);
  })
  .openapi(inject, async (c) => {
    const { id } = c.req.valid("param");
    const answer = await withDatabase(c.get("config"), (db) =>
      once(c, db, remembered, async (tx) => {
        await requireNode(tx, viewerOf(c), id);
        await audit(tx, c, "node_keys.inject", id);
        return { status: 202, body: { command_id: uuidv7() } };
      }),
    );
    // Also when repeated: the first request may have ended between its commit and this call.
    const commandId = answer.body.command_id;
    const payload = await sealedKeys(c, id);
    const view = await callObject(c, id, "no_installation", (node) =>
      node.enqueueCommand({
        commandId,
        payload,
        ttlMs: DEFAULTS.command.ttlMs,
        idempotencyKey: commandId,
        requestedBy: actorOf(c),
        notify: null,
      }),
    );
    return c.json(toCommand(view), 202);
  });

/** What is shown of keys has been opened first: whoever can write to Postgres cannot show another public key. */
async function keysOf(c: ApiContext, nodeId: string) {
  const config = c.get("config");
  const { set, backedUpAt } = await withDatabase(config, async (db) => {
    await requireNode(db, viewerOf(c), nodeId);
    return findNodeKeys(db, nodeId);
  });
  if (set === null) return { items: [], next_cursor: null };
  await requireReadable(set, masterWrapping(config.MASTER_SECRET));
  return { items: set.keys.map((key) => toNodeKey(key, set.createdAt, backedUpAt)), next_cursor: null };
}

async function sealedKeys(c: ApiContext, nodeId: string): Promise<CommandPayload> {
  const deps = keyDeps(c.env, c.get("config"));
  const { node, set } = await deps.database(async (db) => {
    const row = await requireNode(db, viewerOf(c), nodeId);
    return { node: row, set: (await findNodeKeys(db, nodeId)).set };
  });
  const declared = await keysDeclaredFor(c, node);
  if (declared.length === 0) throw new OrreryError("inputs_unsupported", "The node's chain declares no keys.");
  if (set === null) throw new OrreryError("keys_missing", "The node has no keys.");
  const view = await callObject(c, nodeId, "no_installation", (object) => object.view());
  return injectPayload(deps, set, declared, view);
}

async function keysDeclaredFor(c: ApiContext, { chain, chainContentHash, nodeType }: NodeRow) {
  const files = await readChainFiles(c.env.CHAINS, c.get("config").TENANT, chain, chainContentHash);
  return declaredKeys(chain, nodeType, files);
}

async function audit(tx: Transaction, c: ApiContext, action: string, nodeId: string): Promise<void> {
  await insertAudit(tx, {
    id: uuidv7(),
    tenant: c.get("config").TENANT,
    actor: actorOf(c),
    action,
    entity: `node:${nodeId}`,
    occurredAt: new Date(),
  });
}
