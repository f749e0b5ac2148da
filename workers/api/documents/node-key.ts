import { z } from "@hono/zod-openapi";
import type { listNodeKeys } from "../../../db/node-keys.ts";
import { instant, maybeInstant, toInstant, toMaybeInstant } from "../fields.ts";

/** What is told of a node's key: never its bytes, and not as they are stored either. */
export const nodeKeySchema = z
  .strictObject({
    name: z.string(),
    type: z.string().openapi({ example: "ed25519" }),
    source: z.string().openapi({ example: "generated" }),
    public_key: z.string().nullable().openapi({ description: "Hex; null where the type has none." }),
    created_at: instant,
    backed_up_at: maybeInstant.openapi({ description: "When the encrypted copy was last found to be the same." }),
  })
  .openapi("NodeKey");

type KeyListing = Awaited<ReturnType<typeof listNodeKeys>>[number];

export function toNodeKey(key: KeyListing): z.output<typeof nodeKeySchema> {
  const { name, type, source, publicKey, createdAt, backedUpAt } = key;
  return {
    name,
    type,
    source,
    public_key: publicKey,
    created_at: toInstant(createdAt),
    backed_up_at: toMaybeInstant(backedUpAt),
  };
}
