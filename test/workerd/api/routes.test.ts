import { create, toBinary } from "@bufbuild/protobuf";
import { describe, it } from "vitest";
import { z } from "zod";
import { SCOPES } from "../../../domain/auth/scopes.ts";
import { EnrollRequestSchema } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { createApp } from "../../../workers/api/app.ts";
import { apiDocument } from "../../../workers/api/openapi.ts";
import { type Call, call } from "./harness.ts";

const METHODS = ["get", "put", "post", "delete", "patch"] as const;

/** Every operation of the OpenAPI document. */
function operations() {
  const document = apiDocument(createApp());
  return Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method];
      return operation === undefined ? [] : [{ name: `${method.toUpperCase()} ${path}`, path, method, operation }];
    }),
  );
}

const ID = "019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44";

/** What a client would type for a path of the document. */
function concrete(path: string): string {
  return path.replaceAll(/\{chain\}/g, "some-chain").replaceAll(/\{\w+\}/g, ID);
}

/** What somebody without the node's token can send to an agent's route. */
function stranger(method: string): Call {
  const headers = {
    "orrery-generation": "1",
    "orrery-installation": ID,
    "orrery-epoch": "1",
    "orrery-signature": "0".repeat(128),
  };
  if (method === "get") return { headers };
  const key = new Uint8Array(32);
  const claim = { nodeId: ID, generation: 1, installationId: ID, signingKey: key, sealingKey: key, mac: key };
  const raw = new Uint8Array(toBinary(EnrollRequestSchema, create(EnrollRequestSchema, claim)));
  return { raw, headers: { "content-type": "application/protobuf" } };
}

describe("every route of the API", () => {
  it("names its scope", ({ expect }) => {
    const known = [...SCOPES, "public", "agent"];
    for (const { name, operation } of operations()) expect(known, name).toContain(operation["x-orrery-scope"]);
  });

  it("is in the OpenAPI document, so that none can go around it", ({ expect }) => {
    const documented = operations().map(({ method, path }) => `${method.toUpperCase()} ${path}`);
    const handled = createApp()
      .routes.filter(({ method }) => method !== "ALL")
      .map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, "{$1}")}`);
    expect([...new Set(handled)].sort()).toEqual(documented.sort());
  });

  it("without a public scope refuses a request without credentials", async ({ expect }) => {
    for (const { name, path, method, operation } of operations()) {
      const scope = operation["x-orrery-scope"];
      if (scope === "public") continue;
      const answer = await call(method.toUpperCase(), concrete(path), scope === "agent" ? stranger(method) : {});
      expect([name, answer.status]).toEqual([name, 401]);
      expect(answer.headers.get("content-type")).toBe("application/problem+json");
      expect(answer.headers.get("www-authenticate")).toBe(scope === "agent" ? "Ticket" : "Bearer");
    }
  });

  it("that is a POST of a key's holder asks for an Idempotency-Key", ({ expect }) => {
    for (const { name, method, operation } of operations()) {
      if (method !== "post" || operation["x-orrery-scope"] === "agent") continue;
      const named = (operation.parameters ?? []).map((parameter) => ("name" in parameter ? parameter.name : ""));
      expect(named, name).toContain("idempotency-key");
    }
  });

  it("says what it does and which problems it answers", ({ expect }) => {
    for (const { name, operation } of operations()) {
      expect(operation.summary, name).toMatch(/\S/);
      expect(Object.keys(operation.responses ?? {}), name).toEqual(expect.arrayContaining(["429", "500", "503"]));
    }
  });
});

describe("the documentation", () => {
  it("is served as OpenAPI 3.1 in which every reference leads somewhere", async ({ expect }) => {
    const answer = await call("GET", "/api/v1/openapi.json");
    expect(answer.headers.get("content-type")).toBe("application/json");
    expect(answer.json.openapi).toBe("3.1.0");
    const { schemas } = z.object({ schemas: z.record(z.string(), z.unknown()) }).parse(answer.json.components);
    const references = [...answer.text.matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)].map(([, name]) => name);
    expect(references.length).toBeGreaterThan(10);
    for (const name of references) expect(schemas).toHaveProperty([name ?? ""]);
  });

  it("is the document that test/api validates against the OpenAPI specification", async ({ expect }) => {
    const document = JSON.stringify(apiDocument(createApp()), null, 2);
    await expect(`${document}\n`).toMatchFileSnapshot("./openapi.json.snap");
  });

  it("is readable without scripts and without anything from elsewhere", async ({ expect }) => {
    const page = await call("GET", "/api/v1/docs");
    expect(page.headers.get("content-type")).toMatch(/^text\/html/);
    expect(page.text).not.toMatch(/<script|https?:\/\//i);
    expect(page.headers.get("content-security-policy")).toMatch(/^default-src 'none'; style-src 'nonce-/);
    for (const { path } of operations()) expect(page.text).toContain(path);
    expect(page.text).toContain("idempotency_key_reused");
  });
});
