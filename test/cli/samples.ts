/** Answers of the API as its documentation describes them. */

export const subscription = {
  id: "0192-sub",
  chain: "anvil",
  node_type: "full",
  provider: "local",
  region: "local",
  status: "active",
  created_at: "2026-11-30T10:00:00.000Z",
};

export const node = {
  id: "0192-node",
  subscription_id: "0192-sub",
  chain: "anvil",
  node_type: "full",
  provider: "local",
  region: "local",
  state: "healthy",
  display_state: "healthy",
  application_health: "unknown",
  sync_status: "synced",
  state_since: "2026-11-30T10:01:02.345Z",
  created_at: "2026-11-30T10:00:00.000Z",
  endpoints: { rpc: "http://127.0.0.1:8545" },
};

const noAgent = { connected: false, last_beat_at: null, version: null };
export const replacedAgent = {
  ...noAgent,
  generation: 1,
  status: "revoked",
  enrolled_at: "2026-11-30T10:00:00.000Z",
  key_fingerprint: "0123456789abcdef",
};
export const expectedAgent = {
  ...noAgent,
  generation: 2,
  status: "active",
  enrolled_at: null,
  key_fingerprint: null,
};

export const command = {
  id: "0192-command",
  type: "RESTART",
  state: "completed",
  created_at: "2026-11-30T10:02:00.000Z",
  ended_at: "2026-11-30T10:02:05.000Z",
  code: null,
  message: null,
};

export function saga(workflow: string, status: string, steps: readonly (readonly [string, string])[]) {
  return {
    id: `${workflow}-0192`,
    workflow,
    status,
    code: status === "failed" ? "agent_not_ready" : null,
    message: status === "failed" ? "the agent did not connect" : null,
    steps: steps.map(([name, stepStatus]) => ({
      name,
      status: stepStatus,
      started_at: "2026-11-30T10:00:00.000Z",
      ended_at: stepStatus === "running" ? null : "2026-11-30T10:00:01.500Z",
      detail: null,
    })),
  };
}

export function page(items: readonly unknown[], nextCursor: string | null = null) {
  return { items, next_cursor: nextCursor };
}
