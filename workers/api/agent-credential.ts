import { deriveNodeToken } from "../../domain/auth/node-token.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { ApiContext } from "./context.ts";
import { clientAddress, enforceRateLimit } from "./middleware/rate-limit.ts";

/** What a credential is shown for; a credential that is repeated is counted by itself. */
interface AgentSubject {
  readonly nodeId: string;
  readonly generation: number;
  /** Of a session's ticket. */
  readonly sessionEpoch?: number;
}

/**
 * Lets only what was made under the node's token pass; the token itself is derived here and never travels. As with API
 * keys, wrong credentials count against their address, right ones against their holder: behind one address there can be
 * a whole fleet. Whoever has seen a right one can repeat it, so each counts by itself and by where it comes from: what is
 * repeated elsewhere takes nothing from the agent, whose next ticket is another one.
 * @throws agent_unauthenticated, rate_limited
 */
export async function assertAgent(
  c: ApiContext,
  subject: AgentSubject,
  isMadeUnder: (nodeToken: string) => boolean,
): Promise<string> {
  const { nodeId, generation, sessionEpoch = "enrolment" } = subject;
  const nodeToken = await deriveNodeToken(c.get("config").MASTER_SECRET, nodeId, generation);
  const valid = isMadeUnder(nodeToken);
  const address = `address:${clientAddress(c)}`;
  await enforceRateLimit(c, valid ? `node:${nodeId}:${generation}:${sessionEpoch}:${address}` : address);
  if (!valid) throw new OrreryError("agent_unauthenticated", "This was not made under the node's token.");
  return nodeToken;
}
