import { env } from "cloudflare:workers";
import { uuidv7 } from "uuidv7";
import { beforeAll, describe, it } from "vitest";
import { parse } from "yaml";
import { requireNode } from "../../../db/nodes.ts";
import { deriveNodeToken } from "../../../domain/auth/node-token.ts";
import type { NodeState } from "../../../domain/node/node.ts";
import { callNode } from "../../../durable-objects/shared/stubs.ts";
import { TEST_SECRETS } from "../bindings.ts";
import { activeSubscription, call, callWith, database, idOf, mintKey, recordedSagas } from "./harness.ts";

const NODES = "/api/v1/nodes";

let admin = "";
beforeAll(async () => {
  admin = await mintKey({ scopes: ["admin"] });
});

const { bindings, reenroll } = recordedSagas();

/** A node as the API leaves it: rows, and no object yet. */
async function ordered(): Promise<string> {
  const body = { subscription_id: await activeSubscription(admin, "rebuilt") };
  return idOf(await callWith(bindings, "POST", NODES, { key: admin, body }));
}

/** A node that has come through these states. */
async function nodeIn(...states: readonly NodeState[]): Promise<string> {
  const nodeId = await ordered();
  const row = await database((db) => requireNode(db, { tenant: env.TENANT, userId: null }, nodeId));
  const { tenant, subscriptionId, userId, chain, nodeType, chainContentHash, provider, region } = row;
  const facts = { tenant, subscriptionId, userId, chain, nodeType, chainContentHash, provider, region };
  await callNode(env, nodeId, (node) => node.initialise({ nodeId, ...facts, createdAt: row.createdAt.getTime() }));
  await callNode(env, nodeId, (node) => node.expectInstallation(1, null));
  for (const state of states) {
    const trigger = state === "syncing" ? "provision_saga" : "terminate_saga";
    await callNode(env, nodeId, (node) => node.transition(state, trigger, null));
  }
  return nodeId;
}

function ask(nodeId: string, part: { key?: string; idempotencyKey?: string } = {}) {
  return callWith(bindings, "POST", `${NODES}/${nodeId}/reenroll`, { key: admin, ...part });
}

async function generations(nodeId: string) {
  const { installations } = await callNode(env, nodeId, (node) => node.view());
  return installations.map(({ generation, status }) => `${generation} ${status}`);
}

describe("re-enrolling a node", () => {
  it("revokes its agent, expects the next generation, and tells what the rebuilt host needs", async ({ expect }) => {
    const nodeId = await nodeIn("syncing");
    const answer = await ask(nodeId);
    expect(answer).toMatchObject({ status: 202, json: { generation: 2 } });
    expect(answer.json.node_token).toBe(await deriveNodeToken(TEST_SECRETS.MASTER_SECRET, nodeId, 2));
    expect(parse(String(answer.json.agent_yaml))).toEqual({
      control_url: TEST_SECRETS.PUBLIC_URL,
      control_keys: [{ key_id: "control-1", public_key: expect.stringMatching(/^[0-9a-f]{64}$/) }],
      node_id: nodeId,
      generation: 2,
      token_file: "node-token",
      state_dir: "state",
      data_dir: "data",
    });
    expect(await generations(nodeId)).toEqual(["1 revoked", "2 active"]);
    expect(reenroll.created.at(-1)).toEqual({ id: `reenroll-${nodeId}-2`, params: { nodeId } });
    const sagas = await call("GET", `${NODES}/${nodeId}/saga`, { key: admin });
    expect(sagas.json.items).toContainEqual(
      expect.objectContaining({ id: `reenroll-${nodeId}-2`, workflow: "reenroll-node", status: "running" }),
    );
  });

  it("names the bridge where agents have one", async ({ expect }) => {
    const nodeId = await nodeIn("syncing");
    const options = { key: admin };
    const bridged = { ...bindings, BRIDGE_URL: "grpcs://bridge.test:443", CONTROL_KEY_VERSION: "2" };
    const answer = await callWith(bridged, "POST", `${NODES}/${nodeId}/reenroll`, options);
    expect(parse(String(answer.json.agent_yaml))).toMatchObject({
      bridge: { url: "grpcs://bridge.test:443" },
      control_keys: [{ key_id: "control-2" }, { key_id: "control-1" }],
    });
  });

  it("shows the token once: a repeated request does nothing, and is answered without it", async ({ expect }) => {
    const nodeId = await nodeIn("syncing");
    const idempotencyKey = uuidv7();
    const first = await ask(nodeId, { idempotencyKey });
    const started = reenroll.created.length;
    const again = await ask(nodeId, { idempotencyKey });
    expect([again.status, again.json]).toEqual([202, { ...first.json, node_token: null }]);
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect(reenroll.created).toHaveLength(started);
    expect(await generations(nodeId)).toEqual(["1 revoked", "2 active"]);
    const kept = await database((db) => db.execute(`select * from idempotency_keys where key = '${idempotencyKey}'`));
    expect(JSON.stringify(kept.rows)).toContain("agent_yaml");
    expect(JSON.stringify(kept.rows)).not.toContain(first.json.node_token);
  });

  it("asked for anew goes on to the generation after", async ({ expect }) => {
    const nodeId = await nodeIn("syncing");
    const first = await ask(nodeId);
    const second = await ask(nodeId);
    expect([first.json.generation, second.json.generation]).toEqual([2, 3]);
    expect(second.json.node_token).not.toBe(first.json.node_token);
    expect(await generations(nodeId)).toEqual(["1 revoked", "2 revoked", "3 active"]);
  });

  it("by several at once gives no generation twice", async ({ expect }) => {
    const nodeId = await nodeIn("syncing");
    const answers = await Promise.all(Array.from({ length: 5 }, () => ask(nodeId)));
    const given = answers.filter(({ status }) => status === 202).map(({ json }) => json.generation);
    expect(given.length).toBeGreaterThan(0);
    expect(new Set(given).size).toBe(given.length);
    const others = answers.filter(({ status }) => status !== 202).map(({ status, json }) => [status, json.code]);
    for (const other of others) expect(other).toEqual([409, "state_changed"]);
    expect((await generations(nodeId)).at(-1)).toBe(`${Math.max(...given.map(Number))} active`);
  });

  it.for([
    { name: "provisioning", states: [], code: "invalid_transition" },
    { name: "terminating", states: ["syncing", "terminating"], code: "node_terminating" },
    { name: "terminated", states: ["syncing", "terminating", "terminated"], code: "node_ended" },
  ] as const)("is refused while the node is $name, and leaves nothing", async ({ states, code }, { expect }) => {
    const nodeId = await nodeIn(...states);
    const started = reenroll.created.length;
    const answer = await ask(nodeId);
    expect([answer.status, answer.json.code]).toEqual([409, code]);
    expect(answer.text).not.toMatch(/[0-9a-f]{64}/);
    expect(reenroll.created).toHaveLength(started);
    const sagas = await call("GET", `${NODES}/${nodeId}/saga`, { key: admin });
    expect(sagas.text).not.toContain("reenroll");
  });

  it("is refused before the node has an object, and for a node that nobody has", async ({ expect }) => {
    const early = await ask(await ordered());
    expect([early.status, early.json.code]).toEqual([409, "invalid_transition"]);
    const unknown = await ask(uuidv7());
    expect([unknown.status, unknown.json.code]).toEqual([404, "node_not_found"]);
  });

  it("is the operator's alone", async ({ expect }) => {
    const customer = await mintKey({ scopes: ["nodes:read", "nodes:write"], userId: uuidv7() });
    const answer = await ask(await nodeIn("syncing"), { key: customer });
    expect([answer.status, answer.json.code]).toEqual([403, "insufficient_scope"]);
  });
});

describe("the control keys", () => {
  it("are shown to operators by what is public of them", async ({ expect }) => {
    const path = "/api/v1/admin/control-keys";
    const first = await call("GET", path, { key: admin });
    expect(first.json.items).toEqual([
      { key_id: "control-1", public_key: expect.stringMatching(/^[0-9a-f]{64}$/), status: "current" },
    ]);
    const rotated = await callWith({ CONTROL_KEY_VERSION: "2" }, "GET", path, { key: admin });
    expect(rotated.json.items).toEqual([
      { key_id: "control-2", public_key: expect.stringMatching(/^[0-9a-f]{64}$/), status: "current" },
      { ...Object(first.json.items)[0], status: "previous" },
    ]);
    const reader = await mintKey({ scopes: ["nodes:read"] });
    expect((await call("GET", path, { key: reader })).json.code).toBe("insufficient_scope");
  });
});
