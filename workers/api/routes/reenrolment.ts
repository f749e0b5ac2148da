import { z } from "@hono/zod-openapi";
import { type Transaction, withDatabase } from "../../../db/client.ts";
import { requireNode } from "../../../db/nodes.ts";
import { insertSaga } from "../../../db/sagas.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { agentYaml } from "../../../domain/node/agent-yaml.ts";
import { agentReadyEvent, FIRST_GENERATION, reenrolmentId } from "../../../domain/saga/ids.ts";
import { callNode } from "../../../durable-objects/shared/stubs.ts";
import { agentBootstrap } from "../../agent-bootstrap.ts";
import { callObject } from "../call-object.ts";
import { type ApiContext, actorOf, viewerOf } from "../context.ts";
import { defineRoute, idempotencyHeaders, jsonRequest, jsonResponse, newRouter } from "../define-route.ts";
import { uuid } from "../fields.ts";
import { once } from "../once.ts";
import { startSaga } from "../start-saga.ts";

const reenrolmentSchema = z
  .strictObject({
    generation: z.int().openapi({ description: "Of the installation that is expected from now on." }),
    node_token: z
      .string()
      .nullable()
      .openapi({ description: "For the rebuilt host. Shown once; null when the request is repeated." }),
    agent_yaml: z.string().openapi({ description: "What the rebuilt host's agent.yaml must say." }),
  })
  .openapi("Reenrolment");

const reenroll = defineRoute(
  {
    scope: "admin",
    errors: ["node_not_found", "node_ended", "node_terminating", "invalid_transition", "state_changed"],
  },
  {
    method: "post",
    path: "/api/v1/nodes/{id}/reenroll",
    tags: ["Nodes"],
    summary: "Revoke a node's agent and expect another, on a host whose disk was rebuilt",
    description:
      "A saga waits for the new agent for a day, then configures it, brings the node's keys and starts the chain node.",
    request: {
      params: z.strictObject({ id: uuid }),
      headers: idempotencyHeaders,
      body: jsonRequest(z.strictObject({}), false),
    },
    responses: { 202: jsonResponse(reenrolmentSchema, "What the rebuilt host needs, shown this once.") },
  },
);

export const reenrolmentRoutes = newRouter().openapi(reenroll, async (c) => {
  const config = c.get("config");
  const { id } = c.req.valid("param");
  const answer = await withDatabase(config, (db) =>
    once(c, db, reenrolmentSchema, async (tx, now) => {
      const generation = await expectNextInstallation(tx, c, id, now);
      const { nodeToken, ...identity } = await agentBootstrap(config, id, generation);
      const body = { generation, node_token: nodeToken, agent_yaml: agentYaml(identity) };
      return { status: 202, body, replayBody: { ...body, node_token: null } };
    }),
  );
  const { generation } = answer.body;
  if (!answer.replayed) await startSaga(c, "reenroll-node", reenrolmentId(id, generation), id);
  return c.json(answer.body, 202);
});

/**
 * The saga's row comes first, so that of two requests at once one alone goes on. Where the row is not committed after
 * all, the object expects a generation that nobody was given a token of, and asking again replaces that.
 */
async function expectNextInstallation(tx: Transaction, c: ApiContext, nodeId: string, now: Date): Promise<number> {
  const { tenant } = await requireNode(tx, viewerOf(c), nodeId);
  const { installations } = await callObject(c, nodeId, "invalid_transition", (node) => node.view());
  const generation = Math.max(FIRST_GENERATION, ...installations.map((each) => each.generation)) + 1;
  const id = reenrolmentId(nodeId, generation);
  const saga = { id, tenant, workflow: "reenroll-node", nodeId, requestedBy: actorOf(c) } as const;
  if (!(await insertSaga(tx, saga, now))) {
    throw new OrreryError("state_changed", "Another request has re-enrolled the node meanwhile.");
  }
  const wait = { workflow: "reenroll-node", instanceId: id, eventType: agentReadyEvent(generation) } as const;
  await callNode(c.env, nodeId, (node) => node.replaceInstallation(generation, wait));
  return generation;
}
