import { z } from "zod";

/**
 * What this command reads of the API's answers. Other fields pass through untouched, so that `--json` shows the
 * answer as it came and an older command works with a newer deployment.
 */

export function listOf<T extends z.ZodType>(item: T) {
  return z.looseObject({ items: z.array(item), next_cursor: z.string().nullable() });
}

export const apiKeySchema = z.looseObject({
  id: z.string(),
  name: z.string(),
  scopes: z.array(z.string()),
  created_at: z.string(),
  expires_at: z.string().nullable(),
  last_used_at: z.string().nullable(),
});
/** The key itself is in the first answer to its creation only. */
export const createdApiKeySchema = apiKeySchema.extend({ key: z.string().nullable() });

export const chainSchema = z.looseObject({
  id: z.string(),
  display_name: z.string(),
  node_types: z.array(z.looseObject({ name: z.string() })),
  content_hash: z.string(),
  pushed_at: z.string(),
});

export const subscriptionSchema = z.looseObject({
  id: z.string(),
  chain: z.string(),
  node_type: z.string(),
  provider: z.string(),
  region: z.string(),
  status: z.string(),
  created_at: z.string(),
});

const agentSchema = z.looseObject({
  generation: z.int(),
  status: z.string(),
  connected: z.boolean(),
  enrolled_at: z.string().nullable(),
  key_fingerprint: z.string().nullable(),
});

export const nodeSchema = z.looseObject({
  id: z.string(),
  subscription_id: z.string(),
  chain: z.string(),
  node_type: z.string(),
  provider: z.string(),
  region: z.string(),
  state: z.string(),
  display_state: z.string(),
  application_health: z.string(),
  sync_status: z.string(),
  state_since: z.string(),
  created_at: z.string(),
  endpoints: z.record(z.string(), z.string()),
  /** Of one node alone. */
  agents: z.array(agentSchema).optional(),
});
export type AgentAnswer = z.output<typeof agentSchema>;
export type NodeAnswer = z.output<typeof nodeSchema>;

/** The token is in the first answer only. */
export const reenrolmentSchema = z.looseObject({
  generation: z.int(),
  node_token: z.string().nullable(),
  agent_yaml: z.string(),
});

export const controlKeySchema = z.looseObject({ key_id: z.string(), public_key: z.string(), status: z.string() });
export type ControlKeyAnswer = z.output<typeof controlKeySchema>;

export const eventSchema = z.looseObject({
  kind: z.string(),
  occurred_at: z.string(),
  body: z.record(z.string(), z.unknown()),
});

export const commandSchema = z.looseObject({
  id: z.string(),
  type: z.string(),
  state: z.string(),
  created_at: z.string(),
  ended_at: z.string().nullable(),
  code: z.string().nullable(),
  message: z.string().nullable(),
});

export const keySchema = z.looseObject({
  name: z.string(),
  type: z.string(),
  source: z.string(),
  public_key: z.string().nullable(),
  created_at: z.string(),
  backed_up_at: z.string().nullable(),
});

const sagaStepSchema = z.looseObject({
  name: z.string(),
  status: z.string(),
  started_at: z.string(),
  ended_at: z.string().nullable(),
  detail: z.string().nullable(),
});
export type SagaStep = z.output<typeof sagaStepSchema>;

export const sagaSchema = z.looseObject({
  id: z.string(),
  workflow: z.string(),
  status: z.string(),
  code: z.string().nullable(),
  message: z.string().nullable(),
  steps: z.array(sagaStepSchema),
});
export type Saga = z.output<typeof sagaSchema>;

export const repairReportSchema = z.looseObject({
  nodes: z.int(),
  written: z.int(),
  unreachable: z.int(),
  next_cursor: z.string().nullable(),
});
export type RepairReport = z.output<typeof repairReportSchema>;
