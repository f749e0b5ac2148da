import { z } from "@hono/zod-openapi";
import { uuidv7 } from "uuidv7";
import { withDatabase } from "../../../db/client.ts";
import { requireNode } from "../../../db/nodes.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import type { CommandPayload } from "../../../domain/node/command.ts";
import { callObject } from "../call-object.ts";
import { actorOf, viewerOf } from "../context.ts";
import { defineRoute, idempotencyHeaders, jsonRequest, jsonResponse, newRouter } from "../define-route.ts";
import { commandSchema, toCommand } from "../documents/command.ts";
import { uuid } from "../fields.ts";
import { once } from "../once.ts";
import { decodeCursor, encodeCursor, pageOf, pageQuery } from "../pages.ts";

const nodePath = z.strictObject({ id: uuid });
const commandPath = z.strictObject({ id: uuid, commandId: uuid });

const MAX_SECONDS = 86_400;
const ttl = z
  .int()
  .min(1)
  .max(MAX_SECONDS)
  .default(DEFAULTS.command.ttlMs / 1000)
  .openapi({ description: "Not started within this time, the command expires and is never executed." });

const newCommand = z
  .discriminatedUnion("type", [
    z.strictObject({ type: z.literal("START"), ttl_seconds: ttl }),
    z.strictObject({
      type: z.literal("STOP"),
      ttl_seconds: ttl,
      grace_seconds: z.int().min(1).max(MAX_SECONDS).optional().openapi({
        description: "How long the chain node may take to stop by itself; the chain's own value if left out.",
      }),
    }),
    z.strictObject({ type: z.literal("RESTART"), ttl_seconds: ttl }),
  ])
  .openapi("NewCommand");

const send = defineRoute(
  { scope: "nodes:write", errors: ["node_not_found", "node_ended", "node_terminating", "no_installation"] },
  {
    method: "post",
    path: "/api/v1/nodes/{id}/commands",
    tags: ["Commands"],
    summary: "Send a command to the node's agent; it is queued while the agent is away",
    request: { params: nodePath, headers: idempotencyHeaders, body: jsonRequest(newCommand) },
    responses: { 202: jsonResponse(commandSchema, "The command as it is now.") },
  },
);

const list = defineRoute(
  { scope: "nodes:read", errors: ["node_not_found"] },
  {
    method: "get",
    path: "/api/v1/nodes/{id}/commands",
    tags: ["Commands"],
    summary: "The node's commands, newest first",
    request: { params: nodePath, query: z.strictObject(pageQuery) },
    responses: { 200: jsonResponse(pageOf(commandSchema), "A page of commands.") },
  },
);

const get = defineRoute(
  { scope: "nodes:read", errors: ["node_not_found", "command_not_found"] },
  {
    method: "get",
    path: "/api/v1/nodes/{id}/commands/{commandId}",
    tags: ["Commands"],
    summary: "Show a command",
    request: { params: commandPath },
    responses: { 200: jsonResponse(commandSchema, "The command.") },
  },
);

const cancel = defineRoute(
  { scope: "nodes:write", errors: ["node_not_found", "command_not_found", "command_ended"] },
  {
    method: "post",
    path: "/api/v1/nodes/{id}/commands/{commandId}/cancel",
    tags: ["Commands"],
    summary: "Cancel a command; one that runs is asked to stop",
    request: { params: commandPath, headers: idempotencyHeaders, body: jsonRequest(z.strictObject({}), false) },
    responses: { 202: jsonResponse(commandSchema, "The command as it is now.") },
  },
);

/** What is remembered of a POST whose effect is in the node's object: the id by which the object knows it again. */
const remembered = z.strictObject({ command_id: uuid });

const positionOf = z.tuple([z.int().min(0)]);

export const commandRoutes = newRouter()
  .openapi(send, async (c) => {
    const { id } = c.req.valid("param");
    const body = c.req.valid("json");
    const answer = await withDatabase(c.get("config"), (db) =>
      once(c, db, remembered, async (tx) => {
        await requireNode(tx, viewerOf(c), id);
        return { status: 202, body: { command_id: uuidv7() } };
      }),
    );
    // Also when repeated: the first request may have ended between its commit and this call.
    const commandId = answer.body.command_id;
    const view = await callObject(c, id, "no_installation", (node) =>
      node.enqueueCommand({
        commandId,
        payload: payloadOf(body),
        ttlMs: body.ttl_seconds * 1000,
        idempotencyKey: commandId,
        requestedBy: actorOf(c),
        notify: null,
      }),
    );
    return c.json(toCommand(view), 202);
  })
  .openapi(list, async (c) => {
    const { id } = c.req.valid("param");
    const { limit, cursor } = c.req.valid("query");
    const list = `commands:${id}`;
    const before = cursor === undefined ? null : decodeCursor(list, positionOf, cursor)[0];
    await withDatabase(c.get("config"), (db) => requireNode(db, viewerOf(c), id));
    const page = await callObject(c, id, "no_installation", (node) => node.commands({ limit, before }));
    const next = page.next === null ? null : encodeCursor(list, [page.next]);
    return c.json({ items: page.items.map(toCommand), next_cursor: next }, 200);
  })
  .openapi(get, async (c) => {
    const { id, commandId } = c.req.valid("param");
    await withDatabase(c.get("config"), (db) => requireNode(db, viewerOf(c), id));
    return c.json(toCommand(await callObject(c, id, "command_not_found", (node) => node.command(commandId))), 200);
  })
  .openapi(cancel, async (c) => {
    const { id, commandId } = c.req.valid("param");
    await withDatabase(c.get("config"), (db) =>
      once(c, db, remembered, async (tx) => {
        await requireNode(tx, viewerOf(c), id);
        return { status: 202, body: { command_id: commandId } };
      }),
    );
    const view = await callObject(c, id, "command_not_found", (node) => node.cancelCommand(commandId, actorOf(c)));
    return c.json(toCommand(view), 202);
  });

/** A grace of 0 leaves it to the chain's runtime file, which the agent has. */
function payloadOf(body: z.output<typeof newCommand>): CommandPayload {
  if (body.type !== "STOP") return { type: body.type };
  return { type: "STOP", graceMs: (body.grace_seconds ?? 0) * 1000 };
}
