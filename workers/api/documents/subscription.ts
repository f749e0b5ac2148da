import { z } from "@hono/zod-openapi";
import type { SubscriptionRow } from "../../../db/subscriptions.ts";
import { SUBSCRIPTION_STATUSES } from "../../../domain/subscription/subscription.ts";
import { instant, maybeInstant, toInstant, toMaybeInstant, uuid } from "../fields.ts";

export const subscriptionSchema = z
  .strictObject({
    id: uuid,
    user_id: uuid.nullable(),
    chain: z.string(),
    node_type: z.string(),
    provider: z.string(),
    region: z.string(),
    status: z.enum(SUBSCRIPTION_STATUSES),
    duration_days: z.int(),
    created_at: instant,
    expires_at: maybeInstant,
  })
  .openapi("Subscription");

export function toSubscription(row: SubscriptionRow): z.output<typeof subscriptionSchema> {
  return {
    id: row.id,
    user_id: row.userId,
    chain: row.chain,
    node_type: row.nodeType,
    provider: row.provider,
    region: row.region,
    status: z.enum(SUBSCRIPTION_STATUSES).parse(row.status),
    duration_days: row.durationDays,
    created_at: toInstant(row.createdAt),
    expires_at: toMaybeInstant(row.expiresAt),
  };
}
