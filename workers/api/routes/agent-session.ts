import { z } from "@hono/zod-openapi";
import { verifyNodeToken } from "../../../domain/auth/node-token.ts";
import { isErrorCode, OrreryError } from "../../../domain/errors.ts";
import { openAgentSession } from "../../../durable-objects/shared/stubs.ts";
import type { ApiContext } from "../context.ts";
import { defineRoute, newRouter } from "../define-route.ts";
import { uuid } from "../fields.ts";
import { clientAddress, enforceRateLimit } from "../middleware/rate-limit.ts";

const session = defineRoute(
  { scope: "agent", errors: ["agent_unauthenticated", "node_not_found"] },
  {
    method: "get",
    path: "/api/v1/agents/{nodeId}/session",
    tags: ["Agents"],
    summary: "An agent's session: a WebSocket with frames of orrery.agent.v1",
    request: {
      params: z.strictObject({ nodeId: uuid }),
      headers: z.object({ "orrery-generation": z.string().regex(/^[1-9][0-9]{0,8}$/, "must be a generation, from 1") }),
    },
    responses: { 101: { description: "The session; the agent's first frame is Hello." } },
  },
);

/** Neither Postgres nor the token go past this point: the object gets a request that says only what was verified. */
export const agentSessionRoutes = newRouter().openapi(session, async (c) => {
  const { nodeId } = c.req.valid("param");
  const generation = Number(c.req.valid("header")["orrery-generation"]);
  await assertNodeToken(c, nodeId, generation);
  if (c.req.header("upgrade")?.toLowerCase() !== "websocket") {
    throw new OrreryError("invalid_request", "This route only answers WebSocket upgrades.", { issues: [] });
  }
  const headers = { upgrade: "websocket", "orrery-generation": String(generation) };
  const answer = await openAgentSession(c.env, nodeId, new Request(c.req.url, { headers }));
  if (answer.status === 101) return answer;
  throw await refusalOf(answer);
});

/** The object refuses with a code alone. */
async function refusalOf(answer: Response): Promise<OrreryError> {
  const { data } = refusalSchema.safeParse(await answer.json());
  return new OrreryError(isErrorCode(data?.code) ? data.code : "internal", "The node takes no session.");
}

const refusalSchema = z.object({ code: z.string() });

async function assertNodeToken(c: ApiContext, nodeId: string, generation: number): Promise<void> {
  const token = /^Bearer ([0-9a-f]{64})$/.exec(c.req.header("authorization") ?? "")?.[1];
  const valid =
    token !== undefined && (await verifyNodeToken(c.get("config").MASTER_SECRET, nodeId, generation, token));
  // As with API keys: wrong credentials count against their address, right ones against their holder.
  await enforceRateLimit(c, valid ? `node:${nodeId}` : `address:${clientAddress(c)}`);
  if (!valid) throw new OrreryError("agent_unauthenticated", "The node token is not this node's.");
}
