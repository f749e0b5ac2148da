import { z } from "@hono/zod-openapi";
import type { StoredKey } from "../../../domain/keys/key-set.ts";
import { instant, maybeInstant, msToInstant, toMaybeInstant } from "../fields.ts";

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

/** @param createdAt of the node's keys together, milliseconds */
export function toNodeKey(
  { name, type, source, publicKey }: StoredKey,
  createdAt: number,
  backedUpAt: Date | null,
): z.output<typeof nodeKeySchema> {
  return {
    name,
    type,
    source,
    public_key: publicKey,
    created_at: msToInstant(createdAt),
    backed_up_at: toMaybeInstant(backedUpAt),
  };
}
