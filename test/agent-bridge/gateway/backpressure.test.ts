import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { BridgeProcess } from "./support/bridge-process.ts";
import { hello, StreamAgent } from "./support/clients.ts";
import { type EdgeSession, FakeEdge, sealed, WAIT } from "./support/fake-edge.ts";

/** Far more than sockets and buffers on the way can hold. */
const TOTAL = 600;
const BODY = new Uint8Array(100_000);
/** 16 messages that gRPC's stream reads ahead, and what the runtime needs to handle some megabytes. */
const GROWTH_MIB = 50;
const PATIENCE = { timeout: 25_000, interval: 50 } as const;

let edge: FakeEdge;
let bridge: BridgeProcess;
let agent: StreamAgent;
let session: EdgeSession;

beforeEach(async () => {
  edge = await FakeEdge.start();
  bridge = await BridgeProcess.start({ EDGE_URL: edge.url });
  agent = StreamAgent.open(bridge.url);
  agent.send(hello());
  session = await edge.session();
});
afterEach(async () => {
  agent.close();
  await bridge.kill("SIGKILL");
  await edge[Symbol.asyncDispose]();
});

/** Waits until a number has stopped to grow. */
async function settled(read: () => number | Promise<number>): Promise<number> {
  let last = await read();
  await vi.waitFor(
    async () => {
      const now = await read();
      const hasMoved = now !== last;
      last = now;
      if (hasMoved) throw new Error("It still moves.");
    },
    { timeout: 20_000, interval: 300 },
  );
  return last;
}

const buffered = () => bridge.metric("orrery_bridge_buffered_bytes");

describe("a slow side", () => {
  it("slows the other: an agent that does not read makes the edge wait, and misses nothing", async () => {
    agent.call.pause();
    const before = bridge.residentMiB;
    for (let counter = 1; counter <= TOTAL; counter += 1) session.send(sealed(counter, BODY));
    const left = await settled(() => session.unread);
    expect(left).toBeGreaterThan((TOTAL * BODY.length) / 2);
    expect(await buffered()).toBeLessThan(2 * DEFAULTS.bridge.bufferBytes);
    expect(bridge.residentMiB - before).toBeLessThan(GROWTH_MIB);

    agent.call.resume();
    await vi.waitFor(() => expect(agent.messages.length).toBe(TOTAL), PATIENCE);
    const counters = agent.messages.map(({ body }) => (body.case === "sealed" ? Number(body.value.counter) : 0));
    expect(counters).toEqual(Array.from({ length: TOTAL }, (_, index) => index + 1));
    expect(await buffered()).toBe(0);
  });

  it("slows the other: an edge that does not read makes the agent wait, and misses nothing", async () => {
    session.pause();
    const before = bridge.residentMiB;
    let taken = 0;
    for (let count = 1; count <= TOTAL; count += 1) agent.call.write(hello(BODY), () => (taken += 1));
    expect(await settled(() => taken)).toBeLessThan(TOTAL / 2);
    expect(await buffered()).toBeLessThan(2 * DEFAULTS.bridge.bufferBytes);
    expect(bridge.residentMiB - before).toBeLessThan(GROWTH_MIB);

    session.resume();
    await vi.waitFor(() => expect(session.messages.length).toBe(TOTAL + 1), PATIENCE);
    expect(await buffered()).toBe(0);
  });

  it("does not slow the sessions of others", async () => {
    agent.call.pause();
    for (let counter = 1; counter <= TOTAL; counter += 1) session.send(sealed(counter, BODY));
    edge.isEchoing = true;
    const other = StreamAgent.open(bridge.url, { "orrery-node": "node-2" });
    for (let count = 0; count < 20; count += 1) other.send(hello());
    await vi.waitFor(() => expect(other.messages).toHaveLength(20), WAIT);
    other.close();
  });

  it("holds nothing any more when its session ends", async () => {
    agent.call.pause();
    for (let counter = 1; counter <= TOTAL; counter += 1) session.send(sealed(counter, BODY));
    await vi.waitFor(async () => expect(await buffered()).toBeGreaterThan(0), WAIT);
    agent.close();
    await session.ended;
    await vi.waitFor(async () => expect(await buffered()).toBe(0), WAIT);
  });
});
