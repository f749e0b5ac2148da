import { z } from "@hono/zod-openapi";
import type { NodeRow } from "../../../db/nodes.ts";
import { keyFingerprint } from "../../../domain/identity/fingerprint.ts";
import { displayState } from "../../../domain/node/display-state.ts";
import {
  APPLICATION_HEALTHS,
  type InstallationView,
  NODE_STATES,
  type NodeView,
  SYNC_STATUSES,
} from "../../../domain/node/node.ts";
import { instant, maybeInstant, msToInstant, msToMaybeInstant, toInstant, toMaybeInstant, uuid } from "../fields.ts";

const stateSchema = z.enum(NODE_STATES);
const healthSchema = z.enum(APPLICATION_HEALTHS);
const syncSchema = z.enum(SYNC_STATUSES);

export const nodeSchema = z
  .strictObject({
    id: uuid,
    subscription_id: uuid,
    user_id: uuid.nullable(),
    chain: z.string(),
    node_type: z.string(),
    chain_content_hash: z.string(),
    provider: z.string(),
    region: z.string(),
    state: stateSchema,
    display_state: z.string().openapi({ description: "The one word that people see." }),
    application_health: healthSchema,
    sync_status: syncSchema,
    state_version: z.int(),
    state_since: instant,
    down_since: maybeInstant,
    endpoints: z.record(z.string(), z.string()),
    created_at: instant,
  })
  .openapi("Node");

const agentSchema = z
  .strictObject({
    generation: z.int(),
    status: z.enum(["active", "candidate", "revoked"]),
    connected: z.boolean(),
    last_beat_at: maybeInstant,
    version: z.string().nullable(),
    enrolled_at: maybeInstant.openapi({ description: "When its keys were bound; null while it is only expected." }),
    key_fingerprint: z.string().nullable().openapi({
      description: "The first 16 hex digits of the SHA-256 of its signing key.",
    }),
  })
  .openapi("Agent");

export const nodeDetailSchema = nodeSchema
  .extend({
    live: z.boolean().openapi({
      description: "Whether the node's object answered; if not, the copy in Postgres is shown and `agents` is empty.",
    }),
    agents: z.array(agentSchema),
  })
  .openapi("NodeDetail");

type NodeDocument = z.output<typeof nodeSchema>;

export function toNode(row: NodeRow): NodeDocument {
  const state = stateSchema.parse(row.state);
  const health = healthSchema.parse(row.applicationHealth);
  const sync = syncSchema.parse(row.syncStatus);
  return {
    id: row.id,
    subscription_id: row.subscriptionId,
    user_id: row.userId,
    chain: row.chain,
    node_type: row.nodeType,
    chain_content_hash: row.chainContentHash,
    provider: row.provider,
    region: row.region,
    state,
    display_state: displayState(state, health, sync),
    application_health: health,
    sync_status: sync,
    state_version: row.stateVersion,
    state_since: toInstant(row.stateSince),
    down_since: toMaybeInstant(row.downSince),
    endpoints: z.record(z.string(), z.string()).parse(row.endpoints),
    created_at: toInstant(row.createdAt),
  };
}

/** The copy in Postgres with the object's own truth over it, where the object answered. */
export function toNodeDetail(row: NodeRow, view: NodeView | null): z.output<typeof nodeDetailSchema> {
  const copy = toNode(row);
  if (view === null) return { ...copy, live: false, agents: [] };
  return {
    ...copy,
    state: view.state,
    display_state: displayState(view.state, view.applicationHealth, view.syncStatus),
    application_health: view.applicationHealth,
    sync_status: view.syncStatus,
    state_version: view.stateVersion,
    state_since: msToInstant(view.stateSince),
    down_since: msToMaybeInstant(view.downSince),
    endpoints: { ...view.endpoints },
    live: true,
    agents: view.installations.map(toAgent),
  };
}

function toAgent(installation: InstallationView): z.output<typeof agentSchema> {
  return {
    generation: installation.generation,
    status: installation.status,
    connected: installation.connected,
    last_beat_at: msToMaybeInstant(installation.lastBeatAt),
    version: installation.agentVersion,
    enrolled_at: msToMaybeInstant(installation.enrolledAt),
    key_fingerprint: installation.signingKey === null ? null : keyFingerprint(installation.signingKey),
  };
}
