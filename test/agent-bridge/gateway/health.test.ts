import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { hello, ping, StreamAgent, UnaryAgent } from "./support/clients.ts";
import { FakeEdge, WAIT } from "./support/fake-edge.ts";
import { TestBridge } from "./support/test-bridge.ts";

let edge: FakeEdge;
let bridge: TestBridge;

beforeEach(async () => {
  edge = await FakeEdge.start();
  bridge = await TestBridge.start(edge.url);
});
afterEach(async () => {
  await bridge[Symbol.asyncDispose]();
  await edge[Symbol.asyncDispose]();
});

async function get(path: string): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`${bridge.httpUrl}${path}`);
  return { status: response.status, body: await response.json() };
}

describe("the bridge's health", () => {
  it("says that it lives, and that agents may be sent to it", async () => {
    expect(await get("/healthz")).toEqual({ status: 200, body: { status: "ok" } });
    expect(await get("/readyz")).toEqual({ status: 200, body: { edge: "ok", draining: false } });
  });

  it("is not ready without the edge, and lives nevertheless", async () => {
    await edge.stop();
    expect(await get("/readyz")).toEqual({ status: 503, body: { edge: "edge_unreachable", draining: false } });
    expect((await get("/healthz")).status).toBe(200);
  });

  it("is not ready while it drains", async () => {
    const drained = bridge.bridge.drain(Math.random);
    expect(await get("/readyz")).toEqual({ status: 503, body: { edge: "ok", draining: true } });
    await drained;
  });

  it("knows no other paths and methods", async () => {
    expect((await get("/")).status).toBe(404);
    const response = await fetch(`${bridge.httpUrl}/healthz`, { method: "POST" });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });
});

describe("the bridge's metrics", () => {
  it("count sessions by mode, what passes, and how long the edge takes", async () => {
    const stream = StreamAgent.open(bridge.url);
    stream.send(hello());
    stream.send(ping());
    const unary = new UnaryAgent(bridge.url, { "orrery-node": "node-2" });
    await unary.report({ sequence: 1, messages: [hello()] });
    await vi.waitFor(() => expect(stream.messages).toHaveLength(1), WAIT);
    const lines = {
      'orrery_bridge_sessions{mode="stream"}': 1,
      'orrery_bridge_sessions{mode="unary"}': 1,
      'orrery_bridge_opens_total{mode="stream"}': 1,
      'orrery_bridge_opens_total{mode="unary"}': 1,
      'orrery_bridge_frames_total{direction="up",kind="frame"}': 2,
      'orrery_bridge_frames_total{direction="up",kind="ping"}': 1,
      'orrery_bridge_frames_total{direction="down",kind="pong"}': 1,
      orrery_bridge_edge_connect_seconds_count: 2,
      orrery_bridge_connections: 2,
      orrery_bridge_buffered_bytes: 0,
    };
    for (const [line, value] of Object.entries(lines)) expect([line, await bridge.metric(line)]).toEqual([line, value]);
    stream.close();
    unary.close();
  });

  it("are served as Prometheus reads them", async () => {
    const response = await fetch(`${bridge.httpUrl}/metrics`);
    expect(response.headers.get("content-type")).toContain("text/plain");
    const text = await response.text();
    expect(text).toContain("orrery_bridge_refusals_total");
  });

  it("tell of the process: what it uses and how busy it is", async () => {
    const now = Date.now() / 1_000;
    expect(await bridge.metric("process_cpu_seconds_total")).toBeGreaterThan(0);
    expect(await bridge.metric("process_resident_memory_bytes")).toBeGreaterThan(10 * 1024 * 1024);
    expect(await bridge.metric("nodejs_heap_size_used_bytes")).toBeGreaterThan(1024 * 1024);
    expect(await bridge.metric("process_open_fds")).toBeGreaterThan(3);
    expect(await bridge.metric("process_start_time_seconds")).toBeLessThanOrEqual(now);
    const utilization = await bridge.metric("nodejs_eventloop_utilization");
    expect(utilization).toBeGreaterThan(0);
    expect(utilization).toBeLessThanOrEqual(1);
  });

  it("name no agent", async () => {
    const agent = StreamAgent.open(bridge.url, { "orrery-node": "node-secret" });
    await edge.session();
    expect(await (await fetch(`${bridge.httpUrl}/metrics`)).text()).not.toContain("node-secret");
    agent.close();
  });
});
