import { beforeAll, describe, it } from "vitest";
import { isErrorCode } from "../../../domain/errors.ts";
import { type Answer, call, chainFiles, mintKey } from "./harness.ts";

const ID = "019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44";

describe("bad input", () => {
  let key = "";
  beforeAll(async () => {
    key = await mintKey({ scopes: ["admin"] });
  });

  const cases: readonly {
    readonly name: string;
    readonly request: () => Promise<Answer>;
    readonly status: number;
    readonly code: string;
  }[] = [
    {
      name: "malformed JSON",
      request: () => call("POST", "/api/v1/nodes", { key, raw: '{"subscription_id":' }),
      status: 400,
      code: "malformed_json",
    },
    {
      name: "an empty body",
      request: () => call("POST", "/api/v1/nodes", { key, raw: "" }),
      status: 400,
      code: "malformed_json",
    },
    {
      name: "no body at all where one is needed",
      request: () => call("POST", "/api/v1/nodes", { key }),
      status: 415,
      code: "unsupported_media_type",
    },
    {
      name: "a body of another media type",
      request: () => call("POST", "/api/v1/nodes", { key, raw: "a=b", headers: { "content-type": "text/plain" } }),
      status: 415,
      code: "unsupported_media_type",
    },
    {
      name: "a form in place of JSON, where the body is optional",
      request: () =>
        call("POST", `/api/v1/nodes/${ID}/terminate`, {
          key,
          raw: "a=b",
          headers: { "content-type": "application/x-www-form-urlencoded" },
        }),
      status: 415,
      code: "unsupported_media_type",
    },
    ...[null, [], 1, "text", true].map((body) => ({
      name: `the JSON value ${JSON.stringify(body)} in place of an object`,
      request: () => call("POST", "/api/v1/nodes", { key, body }),
      status: 400,
      code: "invalid_request",
    })),
    {
      name: "a wrong type",
      request: () => call("POST", "/api/v1/nodes", { key, body: { subscription_id: 7 } }),
      status: 400,
      code: "invalid_request",
    },
    {
      name: "an unknown field",
      request: () => call("POST", "/api/v1/nodes", { key, body: { subscription_id: ID, colour: "red" } }),
      status: 400,
      code: "invalid_request",
    },
    {
      name: "an unknown field in an optional body",
      request: () => call("POST", `/api/v1/nodes/${ID}/terminate`, { key, body: { force: true } }),
      status: 400,
      code: "invalid_request",
    },
    {
      name: "an own __proto__ field",
      request: () => call("POST", "/api/v1/nodes", { key, raw: `{"subscription_id":"${ID}","__proto__":{"a":1}}` }),
      status: 400,
      code: "invalid_request",
    },
    {
      name: "a NUL in a name",
      request: () => call("POST", "/api/v1/admin/api-keys", { key, body: { name: "a\u0000b", scopes: ["admin"] } }),
      status: 400,
      code: "invalid_request",
    },
    {
      name: "half of a surrogate pair in a name",
      request: () => call("POST", "/api/v1/admin/api-keys", { key, body: { name: "a\ud800b", scopes: ["admin"] } }),
      status: 400,
      code: "invalid_request",
    },
    {
      name: "an unknown scope",
      request: () => call("POST", "/api/v1/admin/api-keys", { key, body: { name: "a", scopes: ["root"] } }),
      status: 400,
      code: "invalid_request",
    },
    {
      name: "a command that is not one of the API's",
      request: () => call("POST", `/api/v1/nodes/${ID}/commands`, { key, body: { type: "CONFIGURE" } }),
      status: 400,
      code: "invalid_request",
    },
    {
      name: "a field of another command",
      request: () => call("POST", `/api/v1/nodes/${ID}/commands`, { key, body: { type: "START", grace_seconds: 3 } }),
      status: 400,
      code: "invalid_request",
    },
    ...[0, -1, 0.5, 86_401, "60", null].map((ttl) => ({
      name: `a time to live of ${JSON.stringify(ttl)}`,
      request: () => call("POST", `/api/v1/nodes/${ID}/commands`, { key, body: { type: "START", ttl_seconds: ttl } }),
      status: 400,
      code: "invalid_request",
    })),
    {
      name: "an unknown query parameter",
      request: () => call("GET", "/api/v1/nodes?colour=red", { key }),
      status: 400,
      code: "invalid_request",
    },
    ...["0", "201", "-1", "1.5", "many", ""].map((limit) => ({
      name: `the limit "${limit}"`,
      request: () => call("GET", `/api/v1/nodes?limit=${limit}`, { key }),
      status: 400,
      code: "invalid_request",
    })),
    {
      name: "a state that is none",
      request: () => call("GET", "/api/v1/nodes?state=lost", { key }),
      status: 400,
      code: "invalid_request",
    },
    ...[
      "x",
      "%00",
      btoa("[]"),
      btoa('["nodes"]'),
      btoa('["nodes",1]'),
      btoa('["nodes",1,"not-a-uuid"]'),
      btoa('["nodes",1e300,"019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44"]'),
      // A moment that JavaScript knows and Postgres cannot read.
      btoa('["nodes",8640000000000000,"019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44"]'),
      btoa('["nodes",-1,"019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44"]'),
      btoa('["subscriptions",1,"019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44"]'),
      btoa('{"0":"nodes"}'),
    ].map((cursor) => ({
      name: `the cursor ${cursor}`,
      request: () => call("GET", `/api/v1/nodes?cursor=${encodeURIComponent(cursor)}`, { key }),
      status: 400,
      code: "invalid_cursor",
    })),
    {
      name: "an id that is no id",
      request: () => call("GET", "/api/v1/nodes/not-a-uuid", { key }),
      status: 400,
      code: "invalid_request",
    },
    {
      name: "an id with SQL in it",
      request: () => call("GET", `/api/v1/nodes/${encodeURIComponent("' or 1=1 --")}`, { key }),
      status: 400,
      code: "invalid_request",
    },
    {
      name: "a node that nobody has",
      request: () => call("GET", `/api/v1/nodes/${ID}`, { key }),
      status: 404,
      code: "node_not_found",
    },
    {
      name: "a command of a node that nobody has",
      request: () => call("GET", `/api/v1/nodes/${ID}/commands/${ID}`, { key }),
      status: 404,
      code: "node_not_found",
    },
    {
      name: "a chain that nobody pushed",
      request: () => call("GET", "/api/v1/chains/nothing", { key }),
      status: 404,
      code: "chain_not_found",
    },
    {
      name: "a path that is none",
      request: () => call("GET", "/api/v1/planets", { key }),
      status: 404,
      code: "not_found",
    },
    {
      name: "a method that the path does not have",
      request: () => call("DELETE", `/api/v1/nodes/${ID}`, { key }),
      status: 405,
      code: "method_not_allowed",
    },
    {
      name: "a POST without an Idempotency-Key",
      request: () => call("POST", "/api/v1/nodes", { key, body: { subscription_id: ID }, idempotencyKey: null }),
      status: 400,
      code: "idempotency_key_required",
    },
    {
      name: "an Idempotency-Key that is too long",
      request: () =>
        call("POST", "/api/v1/nodes", { key, body: { subscription_id: ID }, idempotencyKey: "k".repeat(201) }),
      status: 400,
      code: "idempotency_key_required",
    },
    {
      name: "an Idempotency-Key with a blank in it",
      request: () => call("POST", "/api/v1/nodes", { key, body: { subscription_id: ID }, idempotencyKey: "a b" }),
      status: 400,
      code: "idempotency_key_required",
    },
    {
      name: "a body beyond the limit",
      request: () => call("POST", "/api/v1/nodes", { key, raw: `{"a":"${"x".repeat(256 * 1024)}"}` }),
      status: 413,
      code: "body_too_large",
    },
    {
      name: "a body beyond the limit that does not say how long it is",
      request: () => call("POST", "/api/v1/nodes", { key, raw: endless(300 * 1024) }),
      status: 413,
      code: "body_too_large",
    },
    {
      name: "a chain file with a wrong type",
      request: () => {
        const files = { ...chainFiles("wrong"), "profile.yaml": "schema_version: 3\n" };
        return call("PUT", "/api/v1/chains/wrong", { key, body: { files } });
      },
      status: 422,
      code: "chain_invalid",
    },
    {
      name: "a chain file with a path that leaves the data directory",
      request: () => {
        const files = chainFiles("wrong");
        const recipe = files["recipes/full.yaml"]?.replace("path: bin/run", "path: ../run") ?? "";
        return call("PUT", "/api/v1/chains/wrong", { key, body: { files: { ...files, "recipes/full.yaml": recipe } } });
      },
      status: 422,
      code: "chain_invalid",
    },
    {
      name: "a chain file with a NUL in it",
      request: () => {
        const files = chainFiles("wrong");
        const profile = files["profile.yaml"]?.replace("Test chain", '"a\\0b"') ?? "";
        return call("PUT", "/api/v1/chains/wrong", { key, body: { files: { ...files, "profile.yaml": profile } } });
      },
      status: 422,
      code: "chain_invalid",
    },
    {
      name: "a chain file that holds itself",
      request: () => {
        const files = { ...chainFiles("wrong"), "profile.yaml": "&a\nx: *a\n" };
        return call("PUT", "/api/v1/chains/wrong", { key, body: { files } });
      },
      status: 422,
      code: "chain_invalid",
    },
    {
      name: "a chain id that is none",
      request: () => call("PUT", "/api/v1/chains/Wrong%20Chain", { key, body: { files: {} } }),
      status: 400,
      code: "invalid_request",
    },
  ];

  it.for(cases)("is answered as a problem with a code: $name", async ({ request, status, code }, { expect }) => {
    const answer = await request();
    expect([answer.status, answer.json.code]).toEqual([status, code]);
    expectProblem(answer);
  });

  function expectProblem({ json, headers, status, text }: Answer): void {
    const problem = [json.type, json.title, json.detail, json.advice, json.correlation_id];
    const complete = problem.every((member) => typeof member === "string" && member !== "");
    if (!complete || json.status !== status || !isErrorCode(json.code)) throw new Error(`not a problem: ${text}`);
    if (headers.get("content-type") !== "application/problem+json") throw new Error("not problem+json");
    if (headers.get("x-correlation-id") !== json.correlation_id) throw new Error("another correlation id");
    if (/\bat \w+.*\.ts:\d+|postgres:\/\/|select /i.test(text)) throw new Error(`says too much: ${text}`);
  }

  it("changes nothing", async ({ expect }) => {
    const chains = await call("GET", "/api/v1/chains/wrong", { key });
    expect(chains.status).toBe(404);
  });

  it("names the fields that are wrong and never repeats their values", async ({ expect }) => {
    const body = { name: "", scopes: [], secret: "hunter2" };
    const answer = await call("POST", "/api/v1/admin/api-keys", { key, body });
    expect(answer.json.issues).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ in: "body", path: "name" }),
        expect.objectContaining({ in: "body", path: "scopes" }),
        { in: "body", path: "secret", message: "is not known here" },
      ]),
    );
    expect(answer.text).not.toContain("hunter2");
  });

  it("names no more wrong fields than a person reads, and shortens their names", async ({ expect }) => {
    const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`${"x".repeat(30)}${index}`, 1]));
    const answer = await call("POST", "/api/v1/nodes", { key, body: { ...many, ["y".repeat(50_000)]: 1 } });
    expect(answer.json.issues).toHaveLength(100);
    const one = await call("POST", "/api/v1/nodes", { key, body: { subscription_id: ID, ["y".repeat(50_000)]: 1 } });
    expect(one.text.length).toBeLessThan(2_000);
  });

  it("of a chain names file, path and value", async ({ expect }) => {
    const files = chainFiles("wrong");
    const profile = files["profile.yaml"]?.replace("cpu: 1", "cpu: plenty") ?? "";
    const body = { files: { ...files, "profile.yaml": profile } };
    const answer = await call("PUT", "/api/v1/chains/wrong", { key, body });
    expect(answer.json.issues).toEqual([
      expect.objectContaining({ file: "profile.yaml", path: "node_types.full.resources.cpu", value: '"plenty"' }),
    ]);
  });

  it("tells which methods a path has", async ({ expect }) => {
    const answer = await call("PATCH", "/api/v1/nodes", { key });
    expect(answer.headers.get("allow")?.split(", ").sort()).toEqual(["GET", "POST"]);
  });
});

/** A body of so many bytes that is sent in chunks, without a length. */
function endless(bytes: number): ReadableStream<Uint8Array> {
  let left = bytes;
  return new ReadableStream({
    pull(controller) {
      if (left <= 0) return controller.close();
      controller.enqueue(new Uint8Array(Math.min(left, 16_384)).fill(0x20));
      left -= 16_384;
    },
  });
}
