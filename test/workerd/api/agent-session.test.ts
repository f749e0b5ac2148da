import { env, exports } from "cloudflare:workers";
import { uuidv7 } from "uuidv7";
import { describe, it } from "vitest";
import { deriveNodeToken } from "../../../domain/auth/node-token.ts";
import { callNode } from "../../../durable-objects/shared/stubs.ts";
import { TEST_SECRETS } from "../bindings.ts";
import { call, mintKey } from "./harness.ts";

function birth(nodeId: string) {
  const place = { chain: "agents", nodeType: "full", chainContentHash: "sha256:0", provider: "local", region: "local" };
  return { nodeId, tenant: env.TENANT, subscriptionId: uuidv7(), userId: null, ...place, createdAt: Date.now() };
}

async function open(nodeId: string, token: string, generation: string, upgrade = true): Promise<Response> {
  const headers = new Headers({ authorization: `Bearer ${token}`, "orrery-generation": generation });
  if (upgrade) headers.set("upgrade", "websocket");
  return exports.default.fetch(new Request(`http://orrery.test/api/v1/agents/${nodeId}/session`, { headers }));
}

describe("an agent's session", () => {
  it("is opened by the node's token for its generation", async ({ expect }) => {
    const nodeId = uuidv7();
    await callNode(env, nodeId, (node) => node.initialise(birth(nodeId)));
    await callNode(env, nodeId, (node) => node.expectInstallation(1, null));
    const response = await open(nodeId, await deriveNodeToken(TEST_SECRETS.MASTER_SECRET, nodeId, 1), "1");
    expect(response.status).toBe(101);
    response.webSocket?.accept();
    response.webSocket?.close(1000, "done");
  });

  it("is refused to every other credential", async ({ expect }) => {
    const nodeId = uuidv7();
    const own = await deriveNodeToken(TEST_SECRETS.MASTER_SECRET, nodeId, 1);
    const others = [
      await deriveNodeToken(TEST_SECRETS.MASTER_SECRET, uuidv7(), 1),
      await deriveNodeToken(TEST_SECRETS.MASTER_SECRET, nodeId, 2),
      await mintKey({ scopes: ["admin"] }),
      "",
      "0".repeat(64),
    ];
    for (const token of others) {
      const response = await open(nodeId, token, "1");
      expect([response.status, await response.json()]).toEqual([
        401,
        expect.objectContaining({ code: "agent_unauthenticated" }),
      ]);
    }
    expect((await open(nodeId, own, "2")).status).toBe(401);
  });

  it("of a node that is not there is refused as a problem", async ({ expect }) => {
    const nodeId = uuidv7();
    const response = await open(nodeId, await deriveNodeToken(TEST_SECRETS.MASTER_SECRET, nodeId, 1), "1");
    expect([response.status, response.headers.get("content-type")]).toEqual([404, "application/problem+json"]);
    expect(await response.json()).toMatchObject({ code: "node_not_found" });
  });

  it("needs a generation and an upgrade", async ({ expect }) => {
    const nodeId = uuidv7();
    const token = await deriveNodeToken(TEST_SECRETS.MASTER_SECRET, nodeId, 1);
    for (const generation of ["0", "-1", "1e3", "one", ""]) {
      expect((await open(nodeId, token, generation)).status).toBe(400);
    }
    expect((await open(nodeId, token, "1", false)).status).toBe(400);
    expect((await call("GET", "/api/v1/agents/not-a-uuid/session")).status).toBe(400);
  });

  it("is the only thing that a node's token opens", async ({ expect }) => {
    const key = await deriveNodeToken(TEST_SECRETS.MASTER_SECRET, uuidv7(), 1);
    expect((await call("GET", "/api/v1/nodes", { key })).status).toBe(401);
  });
});
