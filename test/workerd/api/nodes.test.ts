import { env } from "cloudflare:workers";
import { bytesToHex } from "@noble/hashes/utils.js";
import { uuidv7 } from "uuidv7";
import { beforeAll, describe, it, vi } from "vitest";
import { requireNode } from "../../../db/nodes.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { callNode } from "../../../durable-objects/shared/stubs.ts";
import { consumerDeps } from "../../../workers/queues/deps.ts";
import { drainOutbox } from "../../../workers/queues/drain-outbox.ts";
import { TestIdentity } from "../durable-objects/test-identity.ts";
import { activeSubscription, call, callWith, database, idOf, mintKey, recordedSagas } from "./harness.ts";

const NODES = "/api/v1/nodes";

describe("creating a node", () => {
  let admin = "";
  beforeAll(async () => {
    admin = await mintKey({ scopes: ["admin"] });
  });

  it("commits the node and its saga, then starts the saga once, however often it is asked", async ({ expect }) => {
    const body = { subscription_id: await activeSubscription(admin, "create") };
    const { bindings, provision } = recordedSagas();
    const options = { key: admin, body, idempotencyKey: uuidv7() };
    const first = await callWith(bindings, "POST", NODES, options);
    expect(first).toMatchObject({ status: 202, json: { state: "provisioning", display_state: "provisioning" } });
    const again = await callWith(bindings, "POST", NODES, options);
    expect([again.status, again.json]).toEqual([202, first.json]);
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    const id = idOf(first);
    expect(provision.created).toEqual([{ id: `provision-${id}`, params: { nodeId: id } }]);
    const sagas = await call("GET", `${NODES}/${id}/saga`, { key: admin });
    expect(sagas.json.items).toEqual([
      expect.objectContaining({ id: `provision-${id}`, status: "running", steps: [] }),
    ]);
  });

  it("refuses another body under the same key, also another way of writing it", async ({ expect }) => {
    const subscriptionId = await activeSubscription(admin, "reuse");
    const { bindings } = recordedSagas();
    const idempotencyKey = uuidv7();
    await callWith(bindings, "POST", NODES, { key: admin, body: { subscription_id: subscriptionId }, idempotencyKey });
    for (const other of [{ subscription_id: uuidv7() }, { subscription_id: subscriptionId.toUpperCase() }]) {
      const answer = await callWith(bindings, "POST", NODES, { key: admin, body: other, idempotencyKey });
      expect([answer.status, answer.json.code]).toEqual([422, "idempotency_key_reused"]);
    }
    const elsewhere = await call("POST", "/api/v1/subscriptions", {
      key: admin,
      body: { chain: "reuse", node_type: "full" },
      idempotencyKey,
    });
    expect(elsewhere.json.code).toBe("idempotency_key_reused");
  });

  it("keeps two keys' Idempotency-Keys apart", async ({ expect }) => {
    const { bindings } = recordedSagas();
    const other = await mintKey({ scopes: ["admin"] });
    const idempotencyKey = uuidv7();
    const [a, b] = [await activeSubscription(admin, "apart-a"), await activeSubscription(admin, "apart-b")];
    const first = await callWith(bindings, "POST", NODES, { key: admin, body: { subscription_id: a }, idempotencyKey });
    const second = await callWith(bindings, "POST", NODES, {
      key: other,
      body: { subscription_id: b },
      idempotencyKey,
    });
    expect([first.status, second.status]).toEqual([202, 202]);
    expect(second.json.id).not.toBe(first.json.id);
  });

  it("leaves nothing of a request that failed, so that the same key may succeed later", async ({ expect }) => {
    const { bindings } = recordedSagas();
    const subscriptionId = await activeSubscription(admin, "in-use");
    const body = { subscription_id: subscriptionId };
    const first = await callWith(bindings, "POST", NODES, { key: admin, body });
    const idempotencyKey = uuidv7();
    const second = await callWith(bindings, "POST", NODES, { key: admin, body, idempotencyKey });
    expect([second.status, second.json.code]).toEqual([409, "subscription_in_use"]);
    await database((db) => db.execute(`update nodes set state = 'terminated' where id = '${idOf(first)}'`));
    const third = await callWith(bindings, "POST", NODES, { key: admin, body, idempotencyKey });
    expect(third.status).toBe(202);
  });

  it("makes one node of many concurrent requests with one key", async ({ expect }) => {
    const { bindings, provision } = recordedSagas();
    const body = { subscription_id: await activeSubscription(admin, "concurrent") };
    const options = { key: admin, body, idempotencyKey: uuidv7() };
    const answers = await Promise.all(Array.from({ length: 10 }, () => callWith(bindings, "POST", NODES, options)));
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([202]));
    expect(new Set(answers.map((answer) => answer.json.id)).size).toBe(1);
    expect(provision.created).toHaveLength(1);
  });

  it("stands when the engine cannot be reached: the row is there and the sweep starts it", async ({ expect }) => {
    const broken = {
      create: async () => {
        throw new Error("engine unavailable");
      },
    };
    const body = { subscription_id: await activeSubscription(admin, "engine-away") };
    const answer = await callWith({ PROVISION_NODE: broken }, "POST", NODES, { key: admin, body });
    expect(answer.status).toBe(202);
  });

  it("needs an active subscription of the same customer", async ({ expect }) => {
    const scopes = ["nodes:write", "subscriptions:write"];
    const customer = await mintKey({ scopes, userId: uuidv7() });
    const foreign = await activeSubscription(admin, "customers");
    const asked = await call("POST", NODES, { key: customer, body: { subscription_id: foreign } });
    expect([asked.status, asked.json.code]).toEqual([404, "not_found"]);
    const body = { chain: "customers", node_type: "full" };
    const pending = idOf(await call("POST", "/api/v1/subscriptions", { key: customer, body }));
    const unpaid = await call("POST", NODES, { key: customer, body: { subscription_id: pending } });
    expect([unpaid.status, unpaid.json.code]).toEqual([409, "subscription_not_active"]);
  });
});

describe("a node that is there", () => {
  let admin = "";
  let id = "";
  let subscriptionId = "";
  const sagas = recordedSagas();
  const orderNode = async (body: object) => idOf(await callWith(sagas.bindings, "POST", NODES, { key: admin, body }));
  beforeAll(async () => {
    admin = await mintKey({ scopes: ["admin"] });
    subscriptionId = await activeSubscription(admin, "life");
    id = await orderNode({ subscription_id: subscriptionId });
  });
  /** A node whose object nobody wakes: what an object tells reaches its rows by the queue, at a time of its own. */
  const quietNode = async () => orderNode({ subscription_id: await activeSubscription(admin, "quiet") });

  it("is shown from Postgres until its object is there, and then as the object has it", async ({ expect }) => {
    const before = await call("GET", `${NODES}/${id}`, { key: admin });
    expect(before).toMatchObject({ status: 200, json: { live: false, state: "provisioning", agents: [] } });
    expect(before.text).not.toMatch(/instance_type|host|address/);
    await initialise(id);
    const after = await call("GET", `${NODES}/${id}`, { key: admin });
    expect(after).toMatchObject({ status: 200, json: { live: true, state: "provisioning", sync_status: "unknown" } });
  });

  it("is shown from Postgres when its object does not answer in time", async ({ expect }) => {
    const silent = { getByName: () => ({ view: () => new Promise(() => undefined) }) };
    // The limit has passed as soon as it is set; every other timer keeps its time.
    const realTimeout = globalThis.setTimeout;
    const timeout = vi.spyOn(globalThis, "setTimeout").mockImplementation((then, ms) => {
      return realTimeout(then, ms === DEFAULTS.api.liveViewMs ? 0 : ms);
    });
    const answer = await callWith({ NODE: silent }, "GET", `${NODES}/${id}`, { key: admin });
    timeout.mockRestore();
    expect(answer).toMatchObject({ status: 200, json: { id, live: false, agents: [] } });
  });

  it("takes commands, which a repeated request finds again", async ({ expect }) => {
    await initialise(id);
    await callNode(env, id, (node) => node.expectInstallation(1, null));
    const options = { key: admin, body: { type: "START", ttl_seconds: 60 }, idempotencyKey: uuidv7() };
    const sent = await call("POST", `${NODES}/${id}/commands`, options);
    expect(sent).toMatchObject({ status: 202, json: { type: "START", state: "queued", ended_at: null } });
    const again = await call("POST", `${NODES}/${id}/commands`, options);
    expect(again.json.id).toBe(sent.json.id);
    const shown = await call("GET", `${NODES}/${id}/commands/${idOf(sent)}`, { key: admin });
    expect(shown.json).toEqual(again.json);
    const listed = await call("GET", `${NODES}/${id}/commands`, { key: admin });
    expect(listed.json.items).toEqual([shown.json]);
    const cancelled = await call("POST", `${NODES}/${id}/commands/${idOf(sent)}/cancel`, { key: admin });
    expect(cancelled).toMatchObject({ status: 202, json: { state: "cancelled" } });
    const unknown = await call("GET", `${NODES}/${id}/commands/${uuidv7()}`, { key: admin });
    expect(unknown.json.code).toBe("command_not_found");
  });

  it("is not there for another customer, on any of its paths", async ({ expect }) => {
    const stranger = await mintKey({ scopes: ["nodes:read", "nodes:write"], userId: uuidv7() });
    const command = uuidv7();
    const paths = ["", "/events", "/saga", "/commands", `/commands/${command}`].map((path) => ["GET", path] as const);
    const posts = ["/terminate", `/commands/${command}/cancel`].map((path) => ["POST", path] as const);
    for (const [method, path] of [...paths, ...posts]) {
      const answer = await call(method, `${NODES}/${id}${path}`, { key: stranger });
      expect([path, answer.status, answer.json.code]).toEqual([path, 404, "node_not_found"]);
    }
    const sent = await call("POST", `${NODES}/${id}/commands`, { key: stranger, body: { type: "START" } });
    expect(sent.status).toBe(404);
    expect((await call("GET", NODES, { key: stranger })).json.items).toEqual([]);
  });

  it("is found by state, chain and subscription", async ({ expect }) => {
    for (const filter of ["chain=life&state=provisioning", `subscription_id=${subscriptionId}`]) {
      const page = await call("GET", `${NODES}?${filter}`, { key: admin });
      expect(page.json.items).toEqual([expect.objectContaining({ id })]);
    }
    expect((await call("GET", `${NODES}?chain=life&state=healthy`, { key: admin })).json.items).toEqual([]);
  });

  it("has its events in order, with instants as RFC 3339", async ({ expect }) => {
    const at = Date.UTC(2026, 10, 30, 12);
    const quietId = await quietNode();
    const event = (position: number, body: object) =>
      database((db) =>
        db.execute(
          `insert into node_events (event_id, node_id, incarnation, position, kind, body, occurred_at)
           values ('${uuidv7()}', '${quietId}', 1, ${position}, 'state_changed', '${JSON.stringify(body)}', now())`,
        ),
      );
    await event(2, { kind: "state_changed", to: "down", effectiveAt: at });
    await event(1, { kind: "listening_gap", from: at, to: at + 1000 });
    const first = await call("GET", `${NODES}/${quietId}/events?limit=1`, { key: admin });
    expect(first.json.items).toEqual([
      expect.objectContaining({ body: { from: "2026-11-30T12:00:00.000Z", to: "2026-11-30T12:00:01.000Z" } }),
    ]);
    const cursor = String(first.json.next_cursor);
    const second = await call("GET", `${NODES}/${quietId}/events?limit=1&cursor=${cursor}`, { key: admin });
    expect(second.json.items).toEqual([
      expect.objectContaining({ body: { to: "down", effective_at: "2026-11-30T12:00:00.000Z" } }),
    ]);
    expect(second.json.next_cursor).toBeNull();
    const elsewhere = await call("GET", `${NODES}/${uuidv7()}/events?cursor=${cursor}`, { key: admin });
    expect(elsewhere.json.code).toBe("invalid_cursor");
  });

  it("shows its agent's keys by their fingerprint, and when and what the agent met", async ({ expect }) => {
    const quietId = await quietNode();
    await initialise(quietId);
    await callNode(env, quietId, (node) => node.expectInstallation(1, null));
    const identity = new TestIdentity();
    const claim = identity.claim(quietId);
    const expected = await call("GET", `${NODES}/${quietId}`, { key: admin });
    expect(expected.json.agents).toEqual([expect.objectContaining({ enrolled_at: null, key_fingerprint: null })]);
    await callNode(env, quietId, (node) => node.enroll(claim));
    const met = { kind: "tampering_reported", code: "frame_forged", message: "m", transport: "bridge" };
    await database((db) =>
      db.execute(
        `insert into node_events (event_id, node_id, incarnation, position, kind, body, occurred_at)
         values ('${uuidv7()}', '${quietId}', 1, 99, '${met.kind}', '${JSON.stringify(met)}', now())`,
      ),
    );
    const fingerprint = (await sha256Hex(claim.signingKey)).slice(0, 16);
    const shown = await call("GET", `${NODES}/${quietId}`, { key: admin });
    expect(shown.json.agents).toEqual([
      expect.objectContaining({ enrolled_at: expect.stringMatching(/Z$/), key_fingerprint: fingerprint }),
    ]);
    const told = await vi.waitUntil(async () => {
      await drainOutbox(consumerDeps(env), quietId);
      const answer = await call("GET", `${NODES}/${quietId}/events`, { key: admin });
      return answer.text.includes("agent_enrolled") && answer;
    });
    expect(told.json.items).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          kind: "agent_enrolled",
          body: { installation_id: claim.installationId, generation: 1, key_fingerprint: fingerprint },
        }),
        expect.objectContaining({
          kind: "tampering_reported",
          body: { code: "frame_forged", message: "m", transport: "bridge" },
        }),
      ]),
    );
    for (const key of [claim.signingKey, claim.sealingKey]) {
      expect(shown.text + told.text).not.toContain(bytesToHex(key));
    }
  });

  it("is terminated by a saga that asking twice starts once, and a failed one again", async ({ expect }) => {
    const { bindings, terminate } = recordedSagas();
    const quietId = await quietNode();
    const first = await callWith(bindings, "POST", `${NODES}/${quietId}/terminate`, { key: admin });
    expect(first.status).toBe(202);
    expect(terminate.created[0]).toEqual({ id: `terminate-node-${quietId}`, params: { nodeId: quietId } });
    await database((db) =>
      db.execute(`update sagas set status = 'failed', code = 'internal' where id = 'terminate-node-${quietId}'`),
    );
    expect((await callWith(bindings, "POST", `${NODES}/${quietId}/terminate`, { key: admin })).status).toBe(202);
    const sagas = await call("GET", `${NODES}/${quietId}/saga`, { key: admin });
    expect(sagas.json.items).toContainEqual(
      expect.objectContaining({ id: `terminate-node-${quietId}`, status: "running", code: null }),
    );
    await database((db) => db.execute(`update nodes set state = 'terminated' where id = '${quietId}'`));
    const late = await callWith(bindings, "POST", `${NODES}/${quietId}/terminate`, { key: admin });
    expect([late.status, late.json.code]).toEqual([409, "node_ended"]);
  });

  it("gets its copy in Postgres back from its object", async ({ expect }) => {
    await initialise(id);
    await database((db) => db.execute(`update nodes set state = 'down', state_version = 0 where id = '${id}'`));
    const repair = await call("POST", "/api/v1/admin/repair/projections", { key: admin, body: {} });
    expect(repair).toMatchObject({ status: 200, json: { next_cursor: null } });
    const row = await database((db) => requireNode(db, { tenant: env.TENANT, userId: null }, id));
    expect(row.state).toBe("provisioning");
  });
});

async function sha256Hex(bytes: Uint8Array): Promise<string> {
  return bytesToHex(new Uint8Array(await crypto.subtle.digest("SHA-256", new Uint8Array(bytes))));
}

async function initialise(nodeId: string): Promise<void> {
  const row = await database((db) => requireNode(db, { tenant: env.TENANT, userId: null }, nodeId));
  await callNode(env, nodeId, (node) =>
    node.initialise({
      nodeId,
      tenant: row.tenant,
      subscriptionId: row.subscriptionId,
      userId: row.userId,
      chain: row.chain,
      nodeType: row.nodeType,
      chainContentHash: row.chainContentHash,
      provider: row.provider,
      region: row.region,
      createdAt: row.createdAt.getTime(),
    }),
  );
}
