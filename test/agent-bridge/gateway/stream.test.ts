import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  type AgentMessage,
  AgentMessageSchema,
  ControlMessageSchema,
} from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { codeIn, hello, ping, StreamAgent, TICKET } from "./support/clients.ts";
import { FakeEdge, problem, sealed, WAIT } from "./support/fake-edge.ts";
import { TestBridge } from "./support/test-bridge.ts";

let edge: FakeEdge;
let bridge: TestBridge;
const agents: StreamAgent[] = [];

beforeEach(async () => {
  edge = await FakeEdge.start();
  bridge = await TestBridge.start(edge.url);
});
afterEach(async () => {
  for (const agent of agents.splice(0)) agent.close();
  await bridge[Symbol.asyncDispose]();
  await edge[Symbol.asyncDispose]();
});

function open(fields?: Readonly<Record<string, string>>): StreamAgent {
  const agent = StreamAgent.open(bridge.url, fields);
  agents.push(agent);
  return agent;
}

describe("a session by a stream", () => {
  it("is a WebSocket at the edge that shows the agent's ticket", async () => {
    open({ "orrery-node": "node-9", "orrery-generation": "3", "orrery-epoch": "12" });
    const { path, headers } = await edge.session();
    expect(path).toBe("/api/v1/agents/node-9/session");
    expect(headers).toMatchObject({
      authorization: `Ticket ${TICKET}`,
      "orrery-generation": "3",
      "orrery-installation": "5f0c7f7e-0d0e-4c39-9f0e-0a4c8e1d2b3c",
      "orrery-epoch": "12",
      "orrery-signature": "cd".repeat(64),
    });
  });

  it("turns Ping into the text that the edge answers without waking, and its answer into Pong", async () => {
    const agent = open();
    agent.send(ping());
    const session = await edge.session();
    await vi.waitFor(() => expect(agent.messages).toHaveLength(1), WAIT);
    expect(session.texts).toEqual(["ping"]);
    expect(session.frames).toEqual([]);
    expect(agent.messages[0]?.body.case).toBe("pong");
  });

  it("passes on every frame in order, both ways, with the bytes that are signed unchanged", async () => {
    const agent = open();
    const session = await edge.session();
    edge.isEchoing = true;
    const bytes = fc.uint8Array({ maxLength: 200 });
    const message = fc.oneof(
      bytes.map((value): AgentMessage => hello(value)),
      fc
        .record({ opening: bytes, signature: bytes })
        .map((value): AgentMessage => create(AgentMessageSchema, { body: { case: "proof", value } })),
      fc
        .record({ counter: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), body: bytes, mac: bytes })
        .map((value): AgentMessage => create(AgentMessageSchema, { body: { case: "sealed", value } })),
    );
    const sent = fc.sample(message, 300);
    for (const one of sent) agent.send(one);
    await vi.waitFor(() => expect(agent.messages).toHaveLength(sent.length), WAIT);
    const expected = sent.map((one) => toBinary(AgentMessageSchema, one));
    expect(session.frames).toEqual(expected);
    expect(agent.messages).toEqual(expected.map((frame, index) => sealed(index + 1, frame)));
  });

  it("keeps fields that this bridge does not know", async () => {
    const agent = open();
    const session = await edge.session();
    const newer = create(ControlMessageSchema, sealed(1, new Uint8Array([1])));
    newer.$unknown = [{ no: 77, wireType: 2, data: new Uint8Array([3, 1, 2, 3]) }];
    session.send(newer);
    await vi.waitFor(() => expect(agent.messages).toHaveLength(1), WAIT);
    expect(agent.messages[0]?.$unknown).toMatchObject(newer.$unknown);
  });

  it.each([
    [401, "agent_unauthenticated", status.UNAUTHENTICATED],
    [404, "node_not_found", status.NOT_FOUND],
    [409, "agent_not_enrolled", status.ABORTED],
    [403, "agent_revoked", status.PERMISSION_DENIED],
    [429, "rate_limited", status.RESOURCE_EXHAUSTED],
    [503, "database_unavailable", status.UNAVAILABLE],
  ])("that the edge refuses with %i %s ends with that code", async (httpStatus, code, expected) => {
    edge.refusal = { status: httpStatus, body: problem(code) };
    const end = await open().status;
    expect(end.code).toBe(expected);
    expect(codeIn(end)).toBe(code);
    expect(await bridge.metric(`orrery_bridge_refusals_total{code="${code}"}`)).toBe(1);
  });

  it.each(["<html>Bad gateway</html>", problem("made_up"), ""])(
    "is as unreachable as the edge when something else answers: %j",
    async (body) => {
      edge.refusal = { status: 502, body };
      const end = await open().status;
      expect([end.code, codeIn(end)]).toEqual([status.UNAVAILABLE, "edge_unreachable"]);
    },
  );

  it("ends when the edge is not there", async () => {
    await edge.stop();
    const end = await open().status;
    expect([end.code, codeIn(end)]).toEqual([status.UNAVAILABLE, "edge_unreachable"]);
  });

  it.each([
    { "orrery-node": "../../admin" },
    { "orrery-ticket": "short" },
    { "orrery-signature": "ab".repeat(32) },
    { "orrery-generation": "0" },
    { "orrery-installation": "a b" },
    { "orrery-epoch": "-1" },
  ])("does not reach the edge with malformed metadata: %j", async (fields) => {
    const end = await open(fields).status;
    expect([end.code, codeIn(end)]).toEqual([status.INVALID_ARGUMENT, "invalid_request"]);
    expect(end.details).toContain(Object.keys(fields)[0]);
    expect(edge.sessions).toHaveLength(0);
  });

  it("brings everything that the edge said, a farewell too, before its end", async () => {
    const agent = open();
    const session = await edge.session();
    for (let counter = 1; counter <= 50; counter += 1) session.send(sealed(counter, new Uint8Array(1_000)));
    session.close();
    const end = await agent.status;
    expect([end.code, codeIn(end)]).toEqual([status.UNAVAILABLE, "edge_unreachable"]);
    expect(agent.messages).toHaveLength(50);
  });

  it("ends when the edge cuts the connection", async () => {
    const agent = open();
    (await edge.session()).cut();
    expect((await agent.status).code).toBe(status.UNAVAILABLE);
  });

  it.each([
    ["text other than pong", "hello"],
    ["bytes that are no message", new Uint8Array([0xff, 0xff, 0xff])],
  ])("ends when the edge sends %s", async (_what, data) => {
    const agent = open();
    (await edge.session()).sendRaw(data);
    const end = await agent.status;
    expect([end.code, codeIn(end)]).toEqual([status.UNAVAILABLE, "malformed_frame"]);
  });

  it("closes its WebSocket in good order when the agent ends the stream", async () => {
    const agent = open();
    agent.send(hello());
    const session = await edge.session();
    await vi.waitFor(() => expect(session.frames).toHaveLength(1), WAIT);
    agent.call.end();
    expect((await agent.status).code).toBe(status.OK);
    expect(await session.ended).toBe(1000);
  });

  it("closes its WebSocket when the agent is gone, and holds nothing of it", async () => {
    const agent = open();
    const session = await edge.session();
    expect(await bridge.metric('orrery_bridge_sessions{mode="stream"}')).toBe(1);
    agent.close();
    await session.ended;
    expect(bridge.bridge.sessions.size).toBe(0);
    expect(await bridge.metric('orrery_bridge_sessions{mode="stream"}')).toBe(0);
  });

  it("gives the connection up when the agent is gone before the edge has taken it", async () => {
    edge.isAnswering = false;
    const agent = open();
    await vi.waitFor(() => expect(bridge.bridge.sessions.size).toBe(1), WAIT);
    agent.close();
    await vi.waitFor(() => expect(bridge.bridge.sessions.size).toBe(0), WAIT);
  });

  it("does not disturb another one", async () => {
    const [one, other] = [open(), open({ "orrery-node": "node-2" })];
    const sessions = [await edge.session(0), await edge.session(1)];
    one.close();
    const left = sessions.find(({ path }) => path.includes("node-2"));
    other.send(ping());
    await vi.waitFor(() => expect(other.messages).toHaveLength(1), WAIT);
    expect(left?.texts).toEqual(["ping"]);
  });
});

describe("limits of a session by a stream", () => {
  it("end an edge that does not answer", async () => {
    await using strict = await TestBridge.start(edge.url, { limits: { openMs: 100 } });
    edge.isAnswering = false;
    const agent = StreamAgent.open(strict.url);
    const end = await agent.status;
    agent.close();
    expect([end.code, codeIn(end)]).toEqual([status.UNAVAILABLE, "edge_unreachable"]);
  });

  it("end a stream that never says anything", async () => {
    await using strict = await TestBridge.start(edge.url, { limits: { openMs: 50 } });
    const agent = StreamAgent.open(strict.url);
    const end = await agent.status;
    agent.close();
    expect([end.code, codeIn(end)]).toEqual([status.DEADLINE_EXCEEDED, "malformed_frame"]);
    await (await edge.session()).ended;
  });

  it("end a message that is larger than any frame", async () => {
    const agent = open();
    const session = await edge.session();
    agent.send(hello(new Uint8Array(300 * 1024)));
    const end = await agent.status;
    expect(end.code).toBe(status.RESOURCE_EXHAUSTED);
    expect(end.details).toContain("larger than");
    await session.ended;
    expect(session.frames).toEqual([]);
  });

  it("take the largest frame both ways", async () => {
    const agent = open();
    const session = await edge.session();
    const body = new Uint8Array(256 * 1024 - 32);
    agent.send(hello(body));
    await vi.waitFor(() => expect(session.frames[0]?.byteLength).toBeGreaterThan(body.length), WAIT);
    session.send(sealed(1, body));
    await vi.waitFor(() => expect(agent.messages).toEqual([sealed(1, body)]), WAIT);
  });

  it("refuse what is more than there may be, and take it again when there is room", async () => {
    await using small = await TestBridge.start(edge.url, { sessionsMax: 2 });
    const first = [StreamAgent.open(small.url), StreamAgent.open(small.url)];
    const session = await edge.session(1);
    const refused = StreamAgent.open(small.url);
    const end = await refused.status;
    expect([end.code, codeIn(end)]).toEqual([status.RESOURCE_EXHAUSTED, "bridge_overloaded"]);
    session.cut();
    await vi.waitFor(() => expect(small.bridge.sessions.size).toBe(1), WAIT);
    const next = StreamAgent.open(small.url);
    await edge.session(2);
    for (const agent of [...first, refused, next]) agent.close();
  });
});
