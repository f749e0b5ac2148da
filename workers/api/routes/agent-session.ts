import { z } from "@hono/zod-openapi";
import { isErrorCode, OrreryError } from "../../../domain/errors.ts";
import { isSessionTicket } from "../../../domain/identity/enrolment.ts";
import { openAgentSession } from "../../../durable-objects/shared/stubs.ts";
import { assertAgent } from "../agent-credential.ts";
import { defineRoute, newRouter } from "../define-route.ts";
import { uuid } from "../fields.ts";

const headers = z.object({
  "orrery-generation": z.string().regex(/^[1-9][0-9]{0,8}$/, "must be a generation, from 1"),
  "orrery-installation": uuid,
  "orrery-epoch": z
    .string()
    .regex(/^[1-9][0-9]{0,15}$/, "must be an epoch, from 1")
    .refine((text) => Number.isSafeInteger(Number(text)), "must be below 2^53"),
  /** By the installation's signing key, whose public half only the node's object knows. */
  "orrery-signature": z.string().regex(/^[0-9a-f]{128}$/, "must be 128 hex digits"),
});

const session = defineRoute(
  { scope: "agent", errors: ["agent_unauthenticated", "proof_invalid", "node_not_found"] },
  {
    method: "get",
    path: "/api/v1/agents/{nodeId}/session",
    tags: ["Agents"],
    summary: "An agent's session: a WebSocket with frames of orrery.agent.v1",
    request: { params: z.strictObject({ nodeId: uuid }), headers },
    responses: { 101: { description: "The session; the agent's first frame is Hello." } },
  },
);

/**
 * The ticket opens the door to the node's object and nothing behind it: a stranger wakes no object. Neither Postgres nor
 * the ticket go past this point: the object gets a request that says only what was verified.
 */
export const agentSessionRoutes = newRouter().openapi(session, async (c) => {
  const { nodeId } = c.req.valid("param");
  const shown = c.req.valid("header");
  const subject = {
    nodeId,
    generation: Number(shown["orrery-generation"]),
    installationId: shown["orrery-installation"],
    sessionEpoch: Number(shown["orrery-epoch"]),
  };
  const ticket = /^Ticket +([0-9a-f]{64})$/i.exec(c.req.header("authorization") ?? "")?.[1] ?? "";
  await assertAgent(c, subject, (nodeToken) => isSessionTicket(nodeToken, subject, ticket));
  if (c.req.header("upgrade")?.toLowerCase() !== "websocket") {
    throw new OrreryError("invalid_request", "This route only answers WebSocket upgrades.", { issues: [] });
  }
  const answer = await openAgentSession(
    c.env,
    nodeId,
    new Request(c.req.url, { headers: { upgrade: "websocket", ...shown } }),
  );
  if (answer.status === 101) return answer;
  throw await refusalOf(answer);
});

/** The object refuses with a code alone. */
async function refusalOf(answer: Response): Promise<OrreryError> {
  const { data } = refusalSchema.safeParse(await answer.json());
  return new OrreryError(isErrorCode(data?.code) ? data.code : "internal", "The node does not take this connection.");
}

const refusalSchema = z.object({ code: z.string() });
