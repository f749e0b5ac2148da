import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { BridgeProcess } from "./support/bridge-process.ts";
import { FakeEdge } from "./support/fake-edge.ts";
import { fileScope } from "./support/scope.ts";
import { hello, NODE_ID, PING, sealed, TestAgent, TICKET } from "./support/test-agent.ts";

const scope = fileScope();
let edge: FakeEdge;
let bridge: BridgeProcess;
let agent: TestAgent;

beforeAll(async () => {
  edge = await FakeEdge.start(scope);
  bridge = await BridgeProcess.start({ EDGE_URL: edge.url }, { scope });
});
beforeEach(() => {
  edge.sessions.length = 0;
  agent = new TestAgent(bridge.url);
});

describe("a session by a stream", () => {
  it("is one WebSocket to the node's address, with the call's metadata as headers", async () => {
    await agent.established();
    expect(edge.sessions).toHaveLength(1);
    expect(edge.session.url).toBe(`/api/v1/agents/${NODE_ID}/session`);
    expect(edge.session.headers).toMatchObject({
      authorization: `Ticket ${TICKET}`,
      "orrery-generation": "1",
      "orrery-installation": "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0002",
      "orrery-epoch": "7",
    });
  });

  it("passes every byte on, both ways and in order", async () => {
    const stream = await agent.established();
    const texts = Array.from({ length: 300 }, (_, index) => `${index} ${"x".repeat((index * 37) % 5_000)}`);
    for (const text of texts) stream.send(sealed(new TextEncoder().encode(text)));
    await stream.until("all echoes", () => stream.heard.length === texts.length);
    expect(stream.heard).toEqual(texts);
    expect(edge.session.messages[0]?.body).toEqual({ case: "hello", value: new Uint8Array([1, 2, 3]) });
  });

  it("makes a Ping the text that wakes nobody, and a Pong of its answer", async () => {
    const stream = await agent.established();
    stream.send(PING);
    await stream.until("a pong", () => stream.messages.at(-1)?.body.case === "pong");
    expect(edge.session.pings).toBe(1);
    expect(edge.session.messages).toHaveLength(1);
  });

  it("keeps the sessions of one connection apart", async () => {
    const streams = await Promise.all(Array.from({ length: 20 }, () => agent.established()));
    await Promise.all(streams.map((stream, index) => stream.echoed(`of ${index}`)));
    expect(streams.map(({ heard }) => heard)).toEqual(streams.map((_, index) => [`of ${index}`]));
    expect(edge.sessions).toHaveLength(20);
  });
});

describe("a session by unary calls", () => {
  it("passes on what calls carry, and answers with what the edge says", async () => {
    const first = await agent.report({ sequence: 1n, messages: [hello()], waitMs: 5_000 });
    expect(first.messages.map(({ body }) => body.case)).toEqual(["challenge"]);
    const next = await agent.report({
      exchangeId: first.exchangeId,
      sequence: 2n,
      received: 1n,
      messages: [sealed(new Uint8Array([9]))],
      waitMs: 5_000,
    });
    expect(next.messages.map(({ body }) => body.case)).toEqual(["sealed"]);
    const beat = await agent.heartbeat({
      exchangeId: first.exchangeId,
      sequence: 3n,
      received: 2n,
      messages: [PING],
      waitMs: 5_000,
    });
    expect(beat.messages.map(({ body }) => body.case)).toEqual(["pong"]);
    expect(edge.session.pings).toBe(1);
    expect(edge.session.headers.authorization).toBe(`Ticket ${TICKET}`);
    expect(edge.sessions).toHaveLength(1);
  });
});

describe("an enrolment", () => {
  it("reaches the edge as it was sent, and its answer the agent", async () => {
    const mac = new Uint8Array(32).fill(7);
    const answer = await agent.enrol({ nodeId: NODE_ID, generation: 3, installationId: "i", mac });
    expect(answer.result.case).toBe("enrolled");
    expect(answer.mac).toEqual(mac);
    expect(edge.enrolments).toMatchObject([{ nodeId: NODE_ID, generation: 3, installationId: "i" }]);
  });
});
