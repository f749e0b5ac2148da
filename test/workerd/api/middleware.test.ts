import { afterEach, describe, it, vi } from "vitest";
import { z } from "zod";
import { activeSubscription, call, callWith, database, idOf, mintKey, recordedSagas } from "./harness.ts";

afterEach(() => vi.restoreAllMocks());

function ask(path: string, bindings: Record<string, unknown>, headers: Record<string, string> = {}) {
  return callWith(bindings, "GET", path, { headers });
}

describe("correlation", () => {
  it("takes the caller's id and answers with it, also in errors", async ({ expect }) => {
    const answer = await call("GET", "/api/v1/nothing", { headers: { "x-correlation-id": "ticket-42" } });
    expect(answer.headers.get("x-correlation-id")).toBe("ticket-42");
    expect(answer.json.correlation_id).toBe("ticket-42");
  });

  it("makes an id where there is none, or one that could forge a log line", async ({ expect }) => {
    const none = await call("GET", "/healthz");
    expect(none.headers.get("x-correlation-id")).toMatch(/^[0-9a-f-]{36}$/);
    const forged = await call("GET", "/healthz", { headers: { "x-correlation-id": 'a" "level":"error' } });
    expect(forged.headers.get("x-correlation-id")).toMatch(/^[0-9a-f-]{36}$/);
  });
});

describe("tracing", () => {
  const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";

  it("goes on with the caller's trace under a span of its own", async ({ expect }) => {
    const headers = { traceparent: `00-${TRACE}-00f067aa0ba902b7-01` };
    const answer = await call("GET", "/healthz", { headers });
    expect(answer.headers.get("traceparent")).toMatch(new RegExp(`^00-${TRACE}-(?!00f067aa0ba902b7)[0-9a-f]{16}-01$`));
  });

  it("begins a trace where the header is malformed", async ({ expect }) => {
    for (const traceparent of ["x", `00-${"0".repeat(32)}-00f067aa0ba902b7-01`, `ff-${TRACE}-00f067aa0ba902b7-01`]) {
      const answer = await call("GET", "/healthz", { headers: { traceparent } });
      expect(answer.headers.get("traceparent")).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
      expect(answer.headers.get("traceparent")).not.toContain(TRACE);
    }
  });

  it("exports the span by OTLP after the answer, without any header of the request", async ({ expect }) => {
    const sent: { url: string; body: string }[] = [];
    vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
      sent.push({ url: String(input), body: String(init?.body) });
      return new Response(null, { status: 200 });
    });
    const bindings = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector.test:4318/" };
    const traceparent = `00-${TRACE}-00f067aa0ba902b7-01`;
    await ask("/api/v1/nothing", bindings, { traceparent, authorization: "Bearer hunter2" });
    expect(sent.map(({ url }) => url)).toEqual(["http://collector.test:4318/v1/traces"]);
    expect(sent[0]?.body).not.toContain("hunter2");
    expect(JSON.parse(sent[0]?.body ?? "{}")).toMatchObject({
      resourceSpans: [{ scopeSpans: [{ spans: [{ traceId: TRACE, parentSpanId: "00f067aa0ba902b7", kind: 2 }] }] }],
    });
  });

  it("changes nothing when the collector does not answer", async ({ expect }) => {
    vi.spyOn(globalThis, "fetch").mockRejectedValue(new Error("connection refused"));
    const response = await ask("/healthz", { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector.test:4318" });
    expect(response.status).toBe(200);
  });
});

describe("the log", () => {
  it("is one structured line per request, with the key's id and no secret", async ({ expect }) => {
    const key = await mintKey({ scopes: ["nodes:read"] });
    const lines = vi.spyOn(console, "info").mockImplementation(() => undefined);
    await ask("/api/v1/nodes?limit=1", {}, { authorization: `Bearer ${key}` });
    expect(lines).toHaveBeenCalledTimes(1);
    const line = String(lines.mock.calls[0]?.[0]);
    const [, id, secret] = key.split("_");
    expect(JSON.parse(line)).toMatchObject({
      message: "request",
      method: "GET",
      route: "/api/v1/nodes",
      status: 200,
      code: null,
      principal: `key:${id}`,
    });
    expect(line).not.toContain(secret);
  });
});

describe("security headers", () => {
  it("are on every answer, also on errors", async ({ expect }) => {
    for (const path of ["/healthz", "/api/v1/nothing", "/api/v1/docs", "/api/v1/nodes"]) {
      const { headers } = await call("GET", path);
      expect(headers.get("x-content-type-options"), path).toBe("nosniff");
      expect(headers.get("x-frame-options"), path).toBe("DENY");
      expect(headers.get("content-security-policy"), path).toMatch(/^default-src 'none'/);
      expect(headers.get("cache-control"), path).toBe("no-store");
    }
  });
});

describe("a fault", () => {
  it("that nobody foresaw answers `internal` and says nothing of its cause", async ({ expect }) => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const broken = {
      limit: () => {
        throw new Error("password=hunter2 at /srv/secret.ts:1");
      },
    };
    const response = await ask("/healthz", { API_RATE_LIMITER: broken });
    expect(response.status).toBe(500);
    expect(response.json).toMatchObject({ code: "internal", correlation_id: expect.any(String) });
    expect(response.text).not.toMatch(/hunter2|secret\.ts/);
    expect(logged).toHaveBeenCalled();
  });

  it("of a query is logged with its statement and never with its parameters", async ({ expect }) => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const key = await mintKey({ scopes: ["admin"] });
    const { bindings } = recordedSagas();
    const body = { subscription_id: await activeSubscription(key, "logged") };
    const created = await callWith(bindings, "POST", "/api/v1/nodes", { key, body });
    const failing = await database(async (db) => {
      await db.execute(`alter table idempotency_keys add constraint refuse check (key <> 'hunter2')`);
      try {
        const options = { key, body: {}, idempotencyKey: "hunter2" };
        return await callWith(bindings, "POST", `/api/v1/nodes/${idOf(created)}/terminate`, options);
      } finally {
        await db.execute(`alter table idempotency_keys drop constraint refuse`);
      }
    });
    expect(failing).toMatchObject({ status: 500, json: { code: "internal" } });
    const lines = logged.mock.calls.flat().join("\n");
    expect(lines).toMatch(/violates check constraint .*failed query: insert into .*idempotency_keys/);
    expect(lines).not.toContain("hunter2");
  });

  it("of the configuration is named in the log and not in the answer", async ({ expect }) => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const response = await ask("/healthz", { MASTER_SECRET: "short" });
    expect(response.json).toMatchObject({ status: 500, code: "configuration_invalid" });
    expect(response.text).not.toContain("MASTER_SECRET");
    expect(logged.mock.calls.flat().join(" ")).toContain("MASTER_SECRET");
  });

  it("of Postgres answers database_unavailable, and /readyz names the component", async ({ expect }) => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const key = await mintKey({ scopes: ["admin"] });
    const unreachable = { DATABASE_WS_PROXY: "127.0.0.1:9/v1" };
    const nodes = await ask("/api/v1/nodes", unreachable, { authorization: `Bearer ${key}` });
    expect([nodes.status, nodes.json]).toEqual([503, expect.objectContaining({ code: "database_unavailable" })]);
    const ready = await ask("/readyz", unreachable);
    expect([ready.status, ready.json]).toEqual([
      503,
      { status: "failed", components: { database: "failed", chain_storage: "ok" } },
    ]);
    expect((await ask("/healthz", unreachable)).status).toBe(200);
  });
});

describe("/metrics", () => {
  it("is Prometheus text of the fleet and of the requests, for operators alone", async ({ expect }) => {
    const key = await mintKey({ scopes: ["admin"] });
    await call("GET", "/api/v1/nodes/019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44", { key });
    const { text, headers } = await call("GET", "/metrics", { key });
    expect(headers.get("content-type")).toMatch(/^text\/plain/);
    const series = z.array(z.string()).parse(text.split("\n").filter((line) => !line.startsWith("#")));
    expect(series).toContainEqual(expect.stringMatching(/^orrery_outbox_lag_seconds \d/));
    expect(series).toContainEqual(expect.stringMatching(/^orrery_overdue_timers \d/));
    expect(series).toContainEqual(
      expect.stringMatching(
        /^orrery_http_requests_total\{method="GET",route="\/api\/v1\/nodes\/:id",status="404"\} \d/,
      ),
    );
  });
});
