import { env } from "cloudflare:workers";
import { uuidv7 } from "uuidv7";
import { beforeAll, describe, it } from "vitest";
import { findApiKey } from "../../../db/api-keys.ts";
import { parseApiKey } from "../../../domain/auth/api-key.ts";
import { TEST_SECRETS } from "../bindings.ts";
import { call, callWith, database, idOf, mintKey } from "./harness.ts";

const NODES = "/api/v1/nodes";

describe("an API key", () => {
  it("opens the routes of its scopes and no others", async ({ expect }) => {
    const key = await mintKey({ scopes: ["nodes:read"] });
    expect((await call("GET", NODES, { key })).status).toBe(200);
    const refused = await call("GET", "/api/v1/subscriptions", { key });
    expect([refused.status, refused.json.code]).toEqual([403, "insufficient_scope"]);
    expect(refused.json.required_scope).toBe("subscriptions:read");
    const write = await call("POST", NODES, { key, body: { subscription_id: uuidv7() } });
    expect(write.json.required_scope).toBe("nodes:write");
  });

  it("is refused once it has expired, and then says so", async ({ expect }) => {
    const key = await mintKey({ scopes: ["admin"], expiresAt: new Date(Date.now() - 1) });
    const answer = await call("GET", NODES, { key });
    expect([answer.status, answer.json.code]).toEqual([401, "api_key_expired"]);
  });

  it("is refused once it is revoked", async ({ expect }) => {
    const key = await mintKey({ scopes: ["admin"], revokedAt: new Date() });
    expect((await call("GET", NODES, { key })).json.code).toBe("unauthenticated");
  });

  it("of another tenant is nobody's here", async ({ expect }) => {
    const key = await mintKey({ scopes: ["admin"], tenant: "somebody-else" });
    expect((await call("GET", NODES, { key })).json.code).toBe("unauthenticated");
  });

  it("with one character changed is nobody's, and the answer does not tell which part was wrong", async ({
    expect,
  }) => {
    const key = await mintKey({ scopes: ["admin"] });
    const wrongSecret = key.slice(0, -1) + (key.endsWith("A") ? "B" : "A");
    const wrongId = key.replace(/^orr_./, (start) => (start === "orr_0" ? "orr_1" : "orr_0"));
    const [secret, id] = [await call("GET", NODES, { key: wrongSecret }), await call("GET", NODES, { key: wrongId })];
    expect([secret.status, id.status]).toEqual([401, 401]);
    expect(secret.json.detail).toBe(id.json.detail);
  });

  it("has its last use written, at most once a minute", async ({ expect }) => {
    const key = await mintKey({ scopes: ["nodes:read"] });
    const id = parseApiKey(key)?.id ?? "";
    await call("GET", NODES, { key });
    const first = (await database((db) => findApiKey(db, env.TENANT, id)))?.lastUsedAt;
    expect(first).toBeInstanceOf(Date);
    await call("GET", NODES, { key });
    const second = (await database((db) => findApiKey(db, env.TENANT, id)))?.lastUsedAt;
    expect(second).toEqual(first);
  });
});

describe("minting keys", () => {
  let admin = "";
  beforeAll(async () => {
    admin = await mintKey({ scopes: ["admin"] });
  });

  it("with the bootstrap secret works once for ever, and its repetition never shows the secret again", async ({
    expect,
  }) => {
    const bootstrap = TEST_SECRETS.BOOTSTRAP_SECRET;
    const useless = { name: "first", scopes: ["nodes:read"] };
    expect((await call("POST", "/api/v1/admin/api-keys", { key: bootstrap, body: useless })).status).toBe(400);
    const body = { name: "first", scopes: ["admin"] };
    const idempotencyKey = uuidv7();
    const first = await call("POST", "/api/v1/admin/api-keys", { key: bootstrap, body, idempotencyKey });
    expect(first.status).toBe(201);
    const key = String(first.json.key);
    expect((await call("GET", NODES, { key })).status).toBe(200);
    const again = await call("POST", "/api/v1/admin/api-keys", { key: bootstrap, body, idempotencyKey });
    expect([again.status, again.json.id, again.json.key]).toEqual([201, first.json.id, null]);
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    const other = await call("POST", "/api/v1/admin/api-keys", { key: bootstrap, body });
    expect([other.status, other.json.code]).toEqual([403, "bootstrap_used"]);
    expect((await call("GET", NODES, { key: bootstrap })).json.code).toBe("insufficient_scope");
  });

  it("is the operator's alone, and no customer gets the scope admin", async ({ expect }) => {
    const customer = await mintKey({ scopes: ["nodes:write"], userId: uuidv7() });
    const body = { name: "mine", scopes: ["nodes:read"] };
    expect((await call("POST", "/api/v1/admin/api-keys", { key: customer, body })).status).toBe(403);
    const promoted = { name: "customer", scopes: ["admin"], user_id: uuidv7() };
    expect((await call("POST", "/api/v1/admin/api-keys", { key: admin, body: promoted })).json.code).toBe(
      "invalid_request",
    );
    const late = { name: "late", scopes: ["admin"], expires_at: "2020-01-01T00:00:00Z" };
    expect((await call("POST", "/api/v1/admin/api-keys", { key: admin, body: late })).status).toBe(400);
  });

  it("shows a list without any secret, page by page, newest first", async ({ expect }) => {
    const made: string[] = [];
    for (const name of ["one", "two", "three"]) {
      const body = { name, scopes: ["nodes:read", "nodes:read"] };
      made.push(idOf(await call("POST", "/api/v1/admin/api-keys", { key: admin, body })));
    }
    const seen: unknown[] = [];
    let path = "/api/v1/admin/api-keys?limit=2";
    for (let pages = 0; pages < 50; pages += 1) {
      const page = await call("GET", path, { key: admin });
      expect(page.text).not.toMatch(/secret|hash|orr_/);
      seen.push(...itemIds(page.json.items));
      if (page.json.next_cursor === null) break;
      path = `/api/v1/admin/api-keys?limit=2&cursor=${String(page.json.next_cursor)}`;
    }
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.filter((id) => made.includes(String(id)))).toEqual(made.toReversed());
  });
});

describe("the rate limit", () => {
  it("answers 429 with Retry-After, counted per key and per address", async ({ expect }) => {
    const counted: string[] = [];
    const limiter = {
      limit: async ({ key }: { key: string }) => {
        counted.push(key);
        return { success: false };
      },
    };
    const key = await mintKey({ scopes: ["admin"] });
    const ask = async (path: string, token: string | null) => {
      const answer = await callWith({ API_RATE_LIMITER: limiter }, "GET", path, {
        ...(token === null ? {} : { key: token }),
        headers: { "cf-connecting-ip": "192.0.2.7" },
      });
      return { status: answer.status, retryAfter: answer.headers.get("retry-after"), code: answer.json.code };
    };
    const limited = await ask(NODES, key);
    expect(limited).toMatchObject({ status: 429, retryAfter: "60", code: "rate_limited" });
    expect(await ask("/healthz", null)).toMatchObject({ status: 429 });
    expect(await ask(NODES, "a-guess")).toMatchObject({ status: 429 });
    const id = parseApiKey(key)?.id;
    expect(counted).toEqual([`dev:key:${id}`, "dev:address:192.0.2.7", "dev:address:192.0.2.7"]);
  });
});

function itemIds(items: unknown): unknown[] {
  return Array.isArray(items) ? items.map((item: { id?: unknown }) => item.id) : [];
}
