import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type AgentMessage, AgentMessageSchema } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { codeIn, failureOf, hello, ping, UnaryAgent } from "./support/clients.ts";
import { type EdgeSession, FakeEdge, problem, sealed, WAIT } from "./support/fake-edge.ts";
import { TestBridge } from "./support/test-bridge.ts";

const LONG_MS = 15_000;

let edge: FakeEdge;
let bridge: TestBridge;
const agents: UnaryAgent[] = [];

beforeEach(async () => {
  edge = await FakeEdge.start();
  bridge = await TestBridge.start(edge.url);
});
afterEach(async () => {
  for (const agent of agents.splice(0)) agent.close();
  await bridge[Symbol.asyncDispose]();
  await edge[Symbol.asyncDispose]();
});

function agentAt(url: string, fields?: Readonly<Record<string, string>>): UnaryAgent {
  const agent = new UnaryAgent(url, fields);
  agents.push(agent);
  return agent;
}

/** A session whose Hello has come to the edge. */
async function opened(url = bridge.url): Promise<{ agent: UnaryAgent; session: EdgeSession }> {
  const agent = agentAt(url);
  await agent.report({ sequence: 1, messages: [hello()] });
  const session = await edge.session();
  return { agent, session };
}

function said(number: number): AgentMessage {
  return create(AgentMessageSchema, { body: { case: "sealed", value: { counter: BigInt(number) } } });
}

function control(number: number, bytes = 8) {
  return sealed(number, new Uint8Array(bytes));
}

describe("a session by unary calls", () => {
  it("is one WebSocket at the edge, opened by the first call, under a name that nobody guesses", async () => {
    const { agent, session } = await opened();
    expect(agent.exchangeId).toMatch(/^[0-9a-f]{32}$/);
    expect(session.path).toBe("/api/v1/agents/node-1/session");
    await agent.report({ sequence: 2, messages: [said(1), said(2)] });
    await vi.waitFor(() => expect(session.messages).toEqual([hello(), said(1), said(2)]), WAIT);
    expect(edge.sessions).toHaveLength(1);
    const other = agentAt(bridge.url);
    await other.report({ sequence: 1, messages: [hello()] });
    expect(other.exchangeId).not.toBe(agent.exchangeId);
  });

  it("turns the Ping of a Heartbeat into the text that the edge answers, and waits for the Pong", async () => {
    const { agent, session } = await opened();
    const { messages } = await agent.heartbeat({ sequence: 2, messages: [ping()], waitMs: LONG_MS });
    expect(messages.map(({ body }) => body.case)).toEqual(["pong"]);
    expect(session.texts).toEqual(["ping"]);
  });

  it("answers at once what the edge has said, and otherwise when it says it", async () => {
    const { agent, session } = await opened();
    session.send(control(1));
    expect((await agent.heartbeat({ sequence: 2, waitMs: LONG_MS })).messages).toEqual([control(1)]);
    const later = agent.heartbeat({ sequence: 3, received: 1, waitMs: LONG_MS });
    session.send(control(2));
    expect((await later).messages).toEqual([control(2)]);
  });

  it("answers with nothing when the edge said nothing while the agent wanted to wait", async () => {
    const { agent } = await opened();
    expect(await agent.heartbeat({ sequence: 2, waitMs: 50 })).toMatchObject({ messages: [], closed: false });
  });

  it("waits no longer than the bridge is willing to", async () => {
    await using strict = await TestBridge.start(edge.url, { limits: { exchangeWaitMs: 50 } });
    const { agent } = await opened(strict.url);
    expect(await agent.heartbeat({ sequence: 2, waitMs: 4_000_000_000 })).toMatchObject({ messages: [] });
  });

  it("answers again what was in an answer that got lost", async () => {
    const { agent, session } = await opened();
    session.send(control(1));
    session.send(control(2));
    await vi.waitFor(async () => {
      const lost = await agent.heartbeat({ sequence: 2 });
      expect(lost.messages).toEqual([control(1), control(2)]);
    }, WAIT);
    expect((await agent.heartbeat({ sequence: 2 })).messages).toEqual([control(1), control(2)]);
    expect((await agent.heartbeat({ sequence: 3, received: 1 })).messages).toEqual([control(2)]);
    expect((await agent.heartbeat({ sequence: 4, received: 2 })).messages).toEqual([]);
  });

  it("sends nothing again that a repeated or an older call carries", async () => {
    const { agent, session } = await opened();
    await agent.report({ sequence: 2, messages: [said(1)] });
    await agent.report({ sequence: 2, messages: [said(1)] });
    await agent.report({ sequence: 1, messages: [hello()] });
    await agent.report({ sequence: 3, messages: [said(2)] });
    await vi.waitFor(() => expect(session.messages).toHaveLength(3), WAIT);
    expect(session.messages).toEqual([hello(), said(1), said(2)]);
  });

  it("gives the answer to the later of two calls: the earlier one's caller has given it up", async () => {
    const { agent, session } = await opened();
    const earlier = agent.heartbeat({ sequence: 2, waitMs: LONG_MS });
    const later = agent.heartbeat({ sequence: 3, waitMs: LONG_MS });
    expect((await earlier).messages).toEqual([]);
    session.send(control(1));
    expect((await later).messages).toEqual([control(1)]);
  });

  it("brings many messages in answers of bounded size, each message once and in order", async () => {
    const { agent, session } = await opened();
    const sent = Array.from({ length: 20 }, (_, index) => control(index + 1, 50_000));
    for (const message of sent) session.send(message);
    const received: unknown[] = [];
    let largest = 0;
    for (let sequence = 2; received.length < sent.length; sequence += 1) {
      const { messages } = await agent.heartbeat({ sequence, received: received.length, waitMs: LONG_MS });
      largest = Math.max(largest, messages.length);
      received.push(...messages);
    }
    expect(received).toEqual(sent);
    expect(largest).toBeLessThanOrEqual(5);
  });

  it.each([
    [401, "agent_unauthenticated", status.UNAUTHENTICATED],
    [404, "node_not_found", status.NOT_FOUND],
  ])("that the edge refuses with %i %s is refused in its first call", async (httpStatus, code, expected) => {
    edge.refusal = { status: httpStatus, body: problem(code) };
    const failure = await failureOf(agentAt(bridge.url).report({ sequence: 1, messages: [hello()] }));
    expect([failure.code, codeIn(failure)]).toEqual([expected, code]);
    expect(bridge.bridge.sessions.size).toBe(0);
  });

  it("brings what the edge said before it closed, and says that this was all", async () => {
    const { agent, session } = await opened();
    session.send(control(1));
    session.close();
    await vi.waitFor(() => expect(bridge.bridge.sessions.size).toBe(0), WAIT);
    expect(await agent.heartbeat({ sequence: 2 })).toMatchObject({ messages: [control(1)], closed: true });
    const failure = await failureOf(agent.heartbeat({ sequence: 3, received: 1 }));
    expect([failure.code, codeIn(failure)]).toEqual([status.UNAVAILABLE, "edge_unreachable"]);
  });

  it("tells a call that waits when the edge closes", async () => {
    const { agent, session } = await opened();
    const waiting = failureOf(agent.heartbeat({ sequence: 2, waitMs: LONG_MS }));
    session.cut();
    expect(codeIn(await waiting)).toBe("edge_unreachable");
  });

  it("is nobody else's: another ticket or node does not find it", async () => {
    const { agent } = await opened();
    for (const fields of [{ "orrery-ticket": "cd".repeat(32) }, { "orrery-node": "node-2" }]) {
      const thief = agentAt(bridge.url, fields);
      const failure = await failureOf(thief.heartbeat({ exchangeId: agent.exchangeId, sequence: 2 }));
      expect([failure.code, codeIn(failure)]).toEqual([status.NOT_FOUND, "exchange_lost"]);
    }
    expect(await agent.heartbeat({ sequence: 2 })).toMatchObject({ closed: false });
  });

  it("that the bridge does not know is lost", async () => {
    const failure = await failureOf(agentAt(bridge.url).report({ exchangeId: "0".repeat(32), sequence: 5 }));
    expect([failure.code, codeIn(failure)]).toEqual([status.NOT_FOUND, "exchange_lost"]);
  });
});

describe("limits of a session by unary calls", () => {
  it("end it when nobody calls, and close its WebSocket", async () => {
    await using strict = await TestBridge.start(edge.url, { limits: { exchangeIdleMs: 100 } });
    const { agent, session } = await opened(strict.url);
    await session.ended;
    expect(strict.bridge.sessions.size).toBe(0);
    const failure = await failureOf(agent.heartbeat({ sequence: 2 }));
    expect([failure.code, codeIn(failure)]).toEqual([status.NOT_FOUND, "exchange_lost"]);
  });

  it("do not end it while a call waits", async () => {
    await using strict = await TestBridge.start(edge.url, { limits: { exchangeIdleMs: 100 } });
    const { agent } = await opened(strict.url);
    expect(await agent.heartbeat({ sequence: 2, waitMs: 400 })).toMatchObject({ messages: [], closed: false });
  });

  it("count the time after its caller has hung up as idle", async () => {
    await using strict = await TestBridge.start(edge.url, { limits: { exchangeIdleMs: 100 } });
    const { agent, session } = await opened(strict.url);
    const waiting = failureOf(agent.heartbeat({ sequence: 2, waitMs: LONG_MS }));
    await vi.waitFor(async () => expect(await strict.metric("orrery_bridge_connections")).toBe(1), WAIT);
    agent.close();
    await waiting;
    await session.ended;
  });

  it("make the edge wait for an agent that does not take what there is, and end it in the end", async () => {
    await using strict = await TestBridge.start(edge.url, { limits: { bufferBytes: 64_000, exchangeIdleMs: 400 } });
    const { agent, session } = await opened(strict.url);
    const COUNT = 400;
    for (let counter = 1; counter <= COUNT; counter += 1) session.send(control(counter, 100_000));
    let sequence = 2;
    const failure = await vi.waitFor(async () => {
      // It lives and calls, and never says that it has received anything.
      const error = await failureOf(
        agent.heartbeat({ sequence: sequence++ }).then((answer) => {
          if (answer.closed) return agent.heartbeat({ sequence: sequence++, received: COUNT });
          expect(strict.bridge.sessions.bufferedBytes()).toBeLessThan(1_000_000);
          throw new Error("It has not ended.");
        }),
      );
      return error;
    }, WAIT);
    expect(codeIn(failure)).toBe("exchange_lost");
  });

  it("make the agent wait for an edge that takes nothing, and end it in the end", async () => {
    await using strict = await TestBridge.start(edge.url, { limits: { bufferBytes: 64_000, exchangeWaitMs: 300 } });
    const { agent, session } = await opened(strict.url);
    session.pause();
    const big = hello(new Uint8Array(200_000));
    const fill = async () => {
      for (let sequence = 2; sequence < 200; sequence += 1) await agent.report({ sequence, messages: [big] });
    };
    const failure = await failureOf(fill());
    expect([failure.code, codeIn(failure)]).toEqual([status.UNAVAILABLE, "edge_unreachable"]);
    expect(failure.details).toContain("takes nothing");
  });
});
