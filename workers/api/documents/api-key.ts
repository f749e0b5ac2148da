import { z } from "@hono/zod-openapi";
import type { ApiKeyRow } from "../../../db/api-keys.ts";
import { instant, maybeInstant, toInstant, toMaybeInstant, uuid } from "../fields.ts";

export const apiKeySchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    user_id: uuid.nullable().openapi({ description: "Null for an operator's key, which sees every customer." }),
    scopes: z.array(z.string()),
    created_at: instant,
    expires_at: maybeInstant,
    revoked_at: maybeInstant,
    last_used_at: maybeInstant,
  })
  .openapi("ApiKey");

export const createdApiKeySchema = apiKeySchema
  .extend({ key: z.string().nullable().openapi({ description: "Shown once; null when the request is repeated." }) })
  .openapi("CreatedApiKey");

export function toApiKey(row: ApiKeyRow): z.output<typeof apiKeySchema> {
  return {
    id: row.id,
    name: row.name,
    user_id: row.userId,
    scopes: row.scopes,
    created_at: toInstant(row.createdAt),
    expires_at: toMaybeInstant(row.expiresAt),
    revoked_at: toMaybeInstant(row.revokedAt),
    last_used_at: toMaybeInstant(row.lastUsedAt),
  };
}
