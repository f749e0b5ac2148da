import { z } from "@hono/zod-openapi";
import type { ChainRow } from "../../../db/chains.ts";
import { type ChainProfile, profileSchema } from "../../../domain/chain/profile.ts";
import { instant, toInstant } from "../fields.ts";

export const chainSchema = z
  .strictObject({
    id: z.string(),
    display_name: z.string(),
    network_type: z.string(),
    content_hash: z
      .string()
      .openapi({ description: "Names the pushed version; a node keeps the one it was born with." }),
    node_types: z.array(
      z.strictObject({ name: z.string(), providers: z.array(z.string()), regions: z.array(z.string()) }),
    ),
    pushed_at: instant,
  })
  .openapi("Chain");

export function toChain(row: ChainRow): z.output<typeof chainSchema> {
  const profile = profileOf(row);
  return {
    id: row.id,
    display_name: row.displayName,
    network_type: profile.network_type,
    content_hash: row.contentHash,
    node_types: Object.entries(profile.node_types).map(([name, type]) => ({
      name,
      providers: Object.keys(type.providers),
      regions: [...new Set(Object.values(type.providers).flatMap(({ regions }) => regions))],
    })),
    pushed_at: toInstant(row.pushedAt),
  };
}

export function profileOf(row: ChainRow): ChainProfile {
  return profileSchema.parse(row.profile);
}
