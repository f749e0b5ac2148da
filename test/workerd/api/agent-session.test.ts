import { exports } from "cloudflare:workers";
import { uuidv7 } from "uuidv7";
import { beforeEach, describe, it, vi } from "vitest";
import { deriveNodeToken } from "../../../domain/auth/node-token.ts";
import { sessionTicket, type TicketSubject } from "../../../domain/identity/enrolment.ts";
import { TEST_SECRETS } from "../bindings.ts";
import { TestAgent } from "../durable-objects/test-agent.ts";
import { TestIdentity } from "../durable-objects/test-identity.ts";
import { muteQueue, TestNode } from "../durable-objects/test-node.ts";
import { call, callWith, mintKey } from "./harness.ts";

const INSTALLATION = new TestIdentity().installationId;

beforeEach(() => {
  vi.restoreAllMocks();
  muteQueue();
});

function subject(nodeId: string, part: Partial<TicketSubject> = {}): TicketSubject {
  return { nodeId, generation: 1, installationId: INSTALLATION, sessionEpoch: 1, ...part };
}

/** What an agent knocks with. */
async function knock(asked: TicketSubject): Promise<Record<string, string>> {
  const token = await deriveNodeToken(TEST_SECRETS.MASTER_SECRET, asked.nodeId, asked.generation);
  return {
    upgrade: "websocket",
    authorization: `Ticket ${sessionTicket(token, asked)}`,
    "orrery-generation": String(asked.generation),
    "orrery-installation": asked.installationId,
    "orrery-epoch": String(asked.sessionEpoch),
    "orrery-signature": new TestIdentity().knock(asked),
  };
}

function open(nodeId: string, headers: Record<string, string>): Promise<Response> {
  return exports.default.fetch(new Request(`http://orrery.test/api/v1/agents/${nodeId}/session`, { headers }));
}

describe("an agent's session", () => {
  it("is opened by a ticket for its node, generation, installation and epoch", async ({ expect }) => {
    const node = await TestNode.born();
    const identity = new TestIdentity();
    await node.stub.enroll(identity.claim(node.nodeId));
    const response = await open(node.nodeId, await knock(subject(node.nodeId, { sessionEpoch: 7 })));
    expect(response.status).toBe(101);
    if (response.webSocket === null) throw new Error("no socket");
    const agent = new TestAgent(response.webSocket, node.nodeId, identity);
    agent.hello(7);
    await agent.until(() => agent.last("welcome") !== undefined);
    expect((await node.stub.view()).installations).toEqual([
      expect.objectContaining({ connected: true, sessionEpoch: 7 }),
    ]);
    await agent.leave();
  });

  it("is refused as a problem to whoever has the node's token and not its installation's key", async ({ expect }) => {
    const node = await TestNode.born();
    await node.stub.enroll(new TestIdentity().claim(node.nodeId));
    const asked = subject(node.nodeId);
    const signature = new TestIdentity(INSTALLATION, "other keys").knock(asked);
    const response = await open(node.nodeId, { ...(await knock(asked)), "orrery-signature": signature });
    expect([response.status, response.headers.get("content-type")]).toEqual([401, "application/problem+json"]);
    expect(await response.json()).toMatchObject({ code: "proof_invalid" });
    expect((await node.stub.view()).installations).toMatchObject([{ connected: false, sessionEpoch: 0 }]);
  });

  it("is refused to a ticket for anything else, and its node hears nothing of it", async ({ expect }) => {
    const nodeId = uuidv7();
    const own = await knock(subject(nodeId));
    const token = await deriveNodeToken(TEST_SECRETS.MASTER_SECRET, nodeId, 1);
    const others: Record<string, string>[] = [
      await knock(subject(uuidv7())),
      { ...own, "orrery-generation": "2" },
      { ...own, "orrery-installation": uuidv7() },
      { ...own, "orrery-epoch": "2" },
      { ...own, authorization: `Bearer ${token}` },
      { ...own, authorization: `Ticket ${token}` },
      { ...own, authorization: `Bearer ${own.authorization?.slice("Ticket ".length)}` },
      { ...own, authorization: `Ticket ${"0".repeat(64)}` },
      { ...own, authorization: `${own.authorization}0` },
      { ...own, authorization: "Ticket" },
      { ...own, authorization: `Bearer ${await mintKey({ scopes: ["admin"] })}` },
    ];
    const reached = vi.fn();
    for (const headers of others) {
      const path = `/api/v1/agents/${nodeId}/session`;
      const answer = await callWith({ NODE: { getByName: reached } }, "GET", path, { headers });
      expect([answer.status, answer.json.code]).toEqual([401, "agent_unauthenticated"]);
      expect(answer.headers.get("www-authenticate")).toBe("Ticket");
    }
    expect(reached).not.toHaveBeenCalled();
  });

  it("reaches its node by a request that says only what was verified", async ({ expect }) => {
    const nodeId = uuidv7();
    const forwarded = vi.fn(async (_request: Request) => Response.json({ code: "node_not_found" }, { status: 404 }));
    const headers = { ...(await knock(subject(nodeId))), cookie: "a=b", "orrery-node": uuidv7() };
    const path = `/api/v1/agents/${nodeId}/session`;
    await callWith({ NODE: { getByName: () => ({ fetch: forwarded }) } }, "GET", path, { headers });
    const [request] = forwarded.mock.calls[0] ?? [];
    expect(Object.fromEntries(request?.headers ?? [])).toEqual({
      upgrade: "websocket",
      "orrery-generation": "1",
      "orrery-installation": INSTALLATION,
      "orrery-epoch": "1",
      "orrery-signature": new TestIdentity().knock(subject(nodeId)),
    });
  });

  it("of a node that is not there is refused as a problem", async ({ expect }) => {
    const nodeId = uuidv7();
    const response = await open(nodeId, await knock(subject(nodeId)));
    expect([response.status, response.headers.get("content-type")]).toEqual([404, "application/problem+json"]);
    expect(await response.json()).toMatchObject({ code: "node_not_found" });
  });

  it("needs a generation, an installation, an epoch, a signature and an upgrade", async ({ expect }) => {
    const nodeId = uuidv7();
    const { upgrade: _upgrade, ...plain } = await knock(subject(nodeId));
    const headers = { upgrade: "websocket", ...plain };
    const wrong: Record<string, string>[] = [plain];
    for (const generation of ["0", "-1", "1e3", "one", "", "1000000000"])
      wrong.push({ ...headers, "orrery-generation": generation });
    for (const installation of ["", "me", `${INSTALLATION}0`])
      wrong.push({ ...headers, "orrery-installation": installation });
    for (const epoch of ["0", "-1", "1.5", "", "9007199254740992"]) wrong.push({ ...headers, "orrery-epoch": epoch });
    for (const signature of ["", "0", "zz".repeat(64)]) wrong.push({ ...headers, "orrery-signature": signature });
    for (const each of wrong) expect([(await open(nodeId, each)).status, each]).toEqual([400, each]);
    expect((await call("GET", "/api/v1/agents/not-a-uuid/session", { headers })).status).toBe(400);
  });

  it("is counted by its ticket and address when the ticket is right, so that a repeated one takes nothing from the next", async ({
    expect,
  }) => {
    const nodeId = uuidv7();
    const limit = vi.fn(async (_options: { key: string }) => ({ success: false }));
    const headers = { ...(await knock(subject(nodeId))), "cf-connecting-ip": "192.0.2.1" };
    const path = `/api/v1/agents/${nodeId}/session`;
    const bindings = { API_RATE_LIMITER: { limit } };
    const answers = [
      await callWith(bindings, "GET", path, { headers }),
      await callWith(bindings, "GET", path, { headers: { ...headers, "orrery-epoch": "2" } }),
    ];
    expect(answers.map(({ json }) => json.code)).toEqual(["rate_limited", "rate_limited"]);
    expect(limit.mock.calls.map(([{ key }]) => key)).toEqual([
      `dev:node:${nodeId}:1:1:address:192.0.2.1`,
      "dev:address:192.0.2.1",
    ]);
  });

  it("is the only thing that what an agent holds opens", async ({ expect }) => {
    const nodeId = uuidv7();
    const key = await deriveNodeToken(TEST_SECRETS.MASTER_SECRET, nodeId, 1);
    expect((await call("GET", "/api/v1/nodes", { key })).status).toBe(401);
    const { authorization = "" } = await knock(subject(nodeId));
    expect((await call("GET", "/api/v1/nodes", { headers: { authorization } })).status).toBe(401);
  });
});
