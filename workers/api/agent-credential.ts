import { deriveNodeToken } from "../../domain/auth/node-token.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { ApiContext } from "./context.ts";
import { clientAddress, enforceRateLimit } from "./middleware/rate-limit.ts";

/**
 * Lets only what was made under the node's token pass; the token itself is derived here and never travels. As with API
 * keys, wrong credentials count against their address, right ones against their holder: behind one address there can be
 * a whole fleet.
 * @throws agent_unauthenticated, rate_limited
 */
export async function assertAgent(
  c: ApiContext,
  subject: { readonly nodeId: string; readonly generation: number },
  isMadeUnder: (nodeToken: string) => boolean,
): Promise<string> {
  const { nodeId, generation } = subject;
  const nodeToken = await deriveNodeToken(c.get("config").MASTER_SECRET, nodeId, generation);
  const valid = isMadeUnder(nodeToken);
  await enforceRateLimit(c, valid ? `node:${nodeId}` : `address:${clientAddress(c)}`);
  if (!valid) throw new OrreryError("agent_unauthenticated", "This was not made under the node's token.");
  return nodeToken;
}
