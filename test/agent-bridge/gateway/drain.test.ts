import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EnrollRequestSchema } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { BridgeProcess } from "./support/bridge-process.ts";
import { codeIn, enrol, failureOf, hello, StreamAgent, UnaryAgent } from "./support/clients.ts";
import { FakeEdge, sealed, WAIT } from "./support/fake-edge.ts";
import { TestBridge } from "./support/test-bridge.ts";

const AGENTS = 100;
const DRAIN_MS = 10_000;

let edge: FakeEdge;
const agents: StreamAgent[] = [];

beforeEach(async () => {
  edge = await FakeEdge.start();
});
afterEach(async () => {
  for (const agent of agents.splice(0)) agent.close();
  await edge[Symbol.asyncDispose]();
});

/** Agents with a session each. */
async function connected(url: string, count: number): Promise<readonly StreamAgent[]> {
  const since = edge.sessions.length;
  for (let index = 0; index < count; index += 1) {
    agents.push(StreamAgent.open(url, { "orrery-node": `node-${since + index}` }));
  }
  await edge.session(since + count - 1);
  return agents.slice(-count);
}

function hintIn({ metadata }: Awaited<StreamAgent["status"]>): number {
  return Number(metadata.get("orrery-reconnect-after-ms")[0]);
}

describe("a bridge that is asked to end", () => {
  it.each(["SIGTERM", "SIGINT"] as const)(
    "by %s tells each agent when to come back, spread, and ends",
    async (signal) => {
      const bridge = await BridgeProcess.start({ EDGE_URL: edge.url, DRAIN_MS: String(DRAIN_MS) });
      const all = await connected(bridge.url, AGENTS);
      bridge.signal(signal);
      const ends = await Promise.all(all.map((agent) => agent.status));
      expect(new Set(ends.map(({ code }) => code))).toEqual(new Set([status.UNAVAILABLE]));
      expect(new Set(ends.map(codeIn))).toEqual(new Set(["bridge_draining"]));
      const hints = ends.map(hintIn);
      expect(Math.min(...hints)).toBeGreaterThanOrEqual(0);
      expect(Math.max(...hints)).toBeLessThan(DRAIN_MS);
      // A fifth of the agents is expected in each fifth of the time: 20, with a deviation of 4.
      const histogram = Array.from({ length: 5 }, (_, fifth) =>
        hints.filter((hint) => Math.floor(hint / 2_000) === fifth),
      );
      for (const fifth of histogram) {
        expect(fifth.length).toBeGreaterThan(2);
        expect(fifth.length).toBeLessThan(50);
      }
      expect(await bridge.ended()).toBe(0);
      for (const session of edge.sessions) expect(await session.ended).toBe(1000);
    },
  );

  it("by a second signal ends at once", async () => {
    const bridge = await BridgeProcess.start({ EDGE_URL: edge.url, LOG_LEVEL: "info" });
    const [agent] = await connected(bridge.url, 1);
    // It reads nothing any more, so a drain has somebody to wait for.
    agent?.call.pause();
    const session = await edge.session();
    for (let counter = 1; counter <= 40; counter += 1) session.send(sealed(counter, new Uint8Array(200_000)));
    bridge.signal("SIGTERM");
    // Sooner, both signals would be one.
    await expect.poll(() => bridge.output, { interval: 5, timeout: 20_000 }).toContain("draining");
    bridge.signal("SIGTERM");
    expect(await bridge.ended()).toBe(130);
  });

  it("does not wait for ever for an agent that takes nothing", async () => {
    const bridge = await BridgeProcess.start({ EDGE_URL: edge.url });
    const [agent] = await connected(bridge.url, 1);
    agent?.call.pause();
    const session = await edge.session();
    for (let counter = 1; counter <= 40; counter += 1) session.send(sealed(counter, new Uint8Array(200_000)));
    bridge.signal("SIGTERM");
    expect(await bridge.ended()).toBe(0);
  });

  it("tells an agent of unary calls at the call that waits", async () => {
    await using bridge = await TestBridge.start(edge.url);
    const agent = new UnaryAgent(bridge.url);
    await agent.report({ sequence: 1, messages: [hello()] });
    const waiting = failureOf(agent.report({ sequence: 2, messages: [hello()], waitMs: 15_000 }));
    await vi.waitFor(() => expect(edge.sessions[0]?.messages).toHaveLength(2), WAIT);
    const drained = bridge.bridge.drain(() => 0.5);
    const failure = await waiting;
    expect([failure.code, codeIn(failure)]).toEqual([status.UNAVAILABLE, "bridge_draining"]);
    expect(failure.metadata.get("orrery-reconnect-after-ms")).toEqual(["5000"]);
    agent.close();
    await drained;
  });

  it("takes nothing new meanwhile, enrolments neither", async () => {
    await using bridge = await TestBridge.start(edge.url);
    await connected(bridge.url, 1);
    const drained = bridge.bridge.drain(Math.random);
    expect((await StreamAgent.open(bridge.url).status).code).toBe(status.UNAVAILABLE);
    const failure = await failureOf(enrol(bridge.url, create(EnrollRequestSchema, { nodeId: "node-1" })));
    expect(failure.code).toBe(status.UNAVAILABLE);
    expect(edge.enrolments).toEqual([]);
    await drained;
    expect(edge.sessions).toHaveLength(1);
  });
});

describe("a bridge that is killed", () => {
  it("loses nothing but its sessions: agents come back to the next one at its address", async () => {
    const first = await BridgeProcess.start({ EDGE_URL: edge.url });
    const all = await connected(first.url, 30);
    await first.kill("SIGKILL");
    const ends = await Promise.all(all.map((agent) => agent.status));
    expect(new Set(ends.map(({ code }) => code))).toEqual(new Set([status.UNAVAILABLE]));
    await Promise.all(edge.sessions.map((session) => session.ended));
    const second = await BridgeProcess.start({ EDGE_URL: edge.url, LISTEN: new URL(first.url).host });
    edge.isEchoing = true;
    const again = await connected(second.url, 30);
    for (const agent of again) agent.send(hello());
    await vi.waitFor(() => expect(again.map(({ messages }) => messages.length)).toEqual(Array(30).fill(1)), WAIT);
  });

  it("does not know the exchanges of the one before", async () => {
    const first = await BridgeProcess.start({ EDGE_URL: edge.url });
    const agent = new UnaryAgent(first.url);
    await agent.report({ sequence: 1, messages: [hello()] });
    await first.kill("SIGKILL");
    const second = await BridgeProcess.start({ EDGE_URL: edge.url, LISTEN: new URL(first.url).host });
    const returned = new UnaryAgent(second.url);
    const failure = await failureOf(returned.heartbeat({ exchangeId: agent.exchangeId, sequence: 2 }));
    expect(codeIn(failure)).toBe("exchange_lost");
    agent.close();
    returned.close();
  });
});

describe("an edge that restarts", () => {
  it("ends its sessions, and the bridge takes them up again when it is back", async () => {
    const bridge = await BridgeProcess.start({ EDGE_URL: edge.url });
    const all = await connected(bridge.url, 20);
    const { port } = edge;
    await edge.stop();
    const ends = await Promise.all(all.map((agent) => agent.status));
    expect(new Set(ends.map(codeIn))).toEqual(new Set(["edge_unreachable"]));
    const meanwhile = StreamAgent.open(bridge.url);
    expect(codeIn(await meanwhile.status)).toBe("edge_unreachable");
    edge = await FakeEdge.start(port);
    await connected(bridge.url, 20);
    await vi.waitFor(async () => expect(await bridge.metric('orrery_bridge_sessions{mode="stream"}')).toBe(20), WAIT);
  });
});
