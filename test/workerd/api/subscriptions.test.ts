import { uuidv7 } from "uuidv7";
import { beforeAll, describe, it } from "vitest";
import { activeSubscription, call, idOf, mintKey } from "./harness.ts";

const SUBSCRIPTIONS = "/api/v1/subscriptions";

describe("subscriptions", () => {
  let admin = "";
  beforeAll(async () => {
    admin = await mintKey({ scopes: ["admin"] });
    await activeSubscription(admin, "sub-chain");
  });

  it("are made active without payment by operators alone", async ({ expect }) => {
    const customer = await mintKey({ scopes: ["subscriptions:write"], userId: uuidv7() });
    const body = { chain: "sub-chain", node_type: "full", status: "active" };
    const refused = await call("POST", SUBSCRIPTIONS, { key: customer, body });
    expect([refused.status, refused.json.required_scope]).toEqual([403, "admin"]);
    const made = await call("POST", SUBSCRIPTIONS, { key: admin, body });
    expect(made).toMatchObject({ status: 201, json: { status: "active", user_id: null, provider: "local" } });
  });

  it("of a customer wait for payment, and asking again answers the same", async ({ expect }) => {
    const userId = uuidv7();
    const customer = await mintKey({ scopes: ["subscriptions:write", "subscriptions:read"], userId });
    const body = { chain: "sub-chain", node_type: "full" };
    const first = await call("POST", SUBSCRIPTIONS, { key: customer, body });
    expect(first).toMatchObject({
      status: 201,
      json: { status: "pending_payment", user_id: userId, duration_days: 30 },
    });
    const second = await call("POST", SUBSCRIPTIONS, { key: customer, body });
    expect(second).toMatchObject({ status: 200, json: { id: first.json.id } });
    const longer = await call("POST", SUBSCRIPTIONS, { key: customer, body: { ...body, duration_days: 90 } });
    expect(longer.status).toBe(201);
    const listed = await call("GET", `${SUBSCRIPTIONS}?status=pending_payment`, { key: customer });
    expect(listed.json.items).toHaveLength(2);
  });

  it("are placed where chain and deployment allow, or refused by code", async ({ expect }) => {
    const ask = async (body: object) =>
      (await call("POST", SUBSCRIPTIONS, { key: admin, body: { chain: "sub-chain", node_type: "full", ...body } }))
        .json;
    expect(await ask({ region: "other" })).toMatchObject({ region: "other" });
    expect(await ask({ chain: "unknown" })).toMatchObject({ code: "chain_not_found" });
    expect(await ask({ node_type: "archive" })).toMatchObject({ code: "node_type_not_found" });
    expect(await ask({ provider: "hetzner" })).toMatchObject({ code: "provider_unavailable" });
    expect(await ask({ region: "mars" })).toMatchObject({ code: "provider_unavailable" });
  });

  it("of others are not there, neither by id nor in the list", async ({ expect }) => {
    const scopes = ["subscriptions:write", "subscriptions:read"];
    const [anna, ben] = [await mintKey({ scopes, userId: uuidv7() }), await mintKey({ scopes, userId: uuidv7() })];
    const id = idOf(await call("POST", SUBSCRIPTIONS, { key: anna, body: { chain: "sub-chain", node_type: "full" } }));
    expect((await call("GET", `${SUBSCRIPTIONS}/${id}`, { key: anna })).status).toBe(200);
    const foreign = await call("GET", `${SUBSCRIPTIONS}/${id}`, { key: ben });
    expect([foreign.status, foreign.json.code]).toEqual([404, "not_found"]);
    expect((await call("GET", SUBSCRIPTIONS, { key: ben })).json.items).toEqual([]);
    expect((await call("GET", `${SUBSCRIPTIONS}/${id}`, { key: admin })).status).toBe(200);
  });
});

describe("chains", () => {
  it("keep their version under the hash of their files, whoever pushes and in whatever order", async ({ expect }) => {
    const key = await mintKey({ scopes: ["admin"] });
    await activeSubscription(key, "hashed");
    const first = await call("GET", "/api/v1/chains/hashed", { key });
    await activeSubscription(key, "hashed");
    const second = await call("GET", "/api/v1/chains/hashed", { key });
    expect(second.json.content_hash).toBe(first.json.content_hash);
    expect(first.json.content_hash).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(first.json.node_types).toEqual([{ name: "full", providers: ["local"], regions: ["local", "other"] }]);
  });

  it("are listed by id, page by page", async ({ expect }) => {
    const key = await mintKey({ scopes: ["admin"] });
    for (const chain of ["page-a", "page-b", "page-c"]) await activeSubscription(key, chain);
    const seen: unknown[] = [];
    for (let path = "/api/v1/chains?limit=1"; path !== ""; ) {
      const page = await call("GET", path, { key });
      if (Array.isArray(page.json.items)) seen.push(...page.json.items.map(({ id }: { id?: unknown }) => id));
      const next = page.json.next_cursor;
      path = typeof next === "string" ? `/api/v1/chains?limit=1&cursor=${next}` : "";
    }
    expect(seen.filter((id) => String(id).startsWith("page-"))).toEqual(["page-a", "page-b", "page-c"]);
  });
});
