import { evictDurableObject } from "cloudflare:test";
import { beforeEach, describe, it } from "vitest";
import { SYNCED, TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { muteQueue, TestNode } from "./test-node.ts";

let clock: TestClock;
beforeEach(() => {
  clock = new TestClock();
  muteQueue();
});

/** A node that is healthy with a quiet outbox, and its agent. */
async function healthyNode(): Promise<{ node: TestNode; agent: TestAgent }> {
  const node = await TestNode.syncing();
  const agent = await TestAgent.join(node.stub, 1, { status: SYNCED });
  await node.drain();
  return { node, agent };
}

/** Rings whatever is due, as the runtime would, until `until`. */
async function ringUntil(node: TestNode, until: number): Promise<void> {
  for (let due = await node.alarmAt(); due !== null && due <= until; due = await node.alarmAt()) {
    if (due > clock.now()) await clock.set(due);
    await node.ringAlarm();
  }
  await clock.set(until);
}

describe("a node's silence", () => {
  it("makes it down exactly 120 s after its last beat, and not a millisecond earlier", async ({ expect }) => {
    const { node, agent } = await healthyNode();
    await clock.forward(7_000);
    await agent.ping();
    const lastBeat = clock.now();

    await ringUntil(node, lastBeat + 119_999);
    expect((await node.stub.view()).state).toBe("healthy");
    expect(await node.alarmAt()).toBe(lastBeat + 120_000);

    await clock.set(lastBeat + 120_000);
    await node.ringAlarm();
    const view = await node.stub.view();
    expect(view).toMatchObject({ state: "down", stateSince: lastBeat, downSince: lastBeat });
    await agent.until(() => agent.closed !== null);
    expect(await node.eventsOf("agent_disconnected")).toMatchObject([{ lastBeatAt: lastBeat }]);
  });

  it("is not there while pings come, and each alarm sets one next alarm at least 110 s ahead", async ({ expect }) => {
    const { node, agent } = await healthyNode();
    let alarms = 0;
    await node.ringAlarm();
    for (let beat = 0; beat < 60; beat += 1) {
      await clock.forward(10_000);
      await agent.ping();
      const due = await node.alarmAt();
      if (due === null || due > clock.now()) continue;
      await evictDurableObject(node.stub);
      await node.ringAlarm();
      alarms += 1;
      expect((await node.alarmAt()) ?? 0).toBeGreaterThanOrEqual(clock.now() + 110_000);
    }
    expect(alarms).toBeLessThanOrEqual(6);
    expect(await node.events()).toEqual([]);
  });

  it("of a closed connection counts from the last beat on it", async ({ expect }) => {
    const { node, agent } = await healthyNode();
    await clock.forward(30_000);
    await agent.ping();
    const lastBeat = clock.now();
    await clock.forward(5_000);
    agent.socket.close(1000, "bye");
    await agent.until(() => agent.closed !== null);
    await evictDurableObject(node.stub);
    expect((await node.stub.view()).installations).toMatchObject([{ connected: false, lastBeatAt: lastBeat }]);
    expect(await node.eventsOf("listening_gap")).toEqual([]);
    await ringUntil(node, lastBeat + 119_999);
    expect((await node.stub.view()).state).toBe("healthy");
    await ringUntil(node, lastBeat + 120_000);
    expect(await node.stub.view()).toMatchObject({ state: "down", downSince: lastBeat });
  });
});

describe("a connection that closes while the object hibernates", () => {
  it("is the agent's leaving, not a gap in our listening", async ({ expect }) => {
    const { node, agent } = await healthyNode();
    await clock.forward(30_000);
    await agent.ping();
    const lastBeat = clock.now();
    await evictDurableObject(node.stub);
    agent.socket.close(1000, "bye");
    await expect.poll(() => node.eventsOf("agent_disconnected")).toMatchObject([{ lastBeatAt: lastBeat }]);
    expect(await node.eventsOf("listening_gap")).toEqual([]);
    await ringUntil(node, lastBeat + 120_000);
    expect(await node.stub.view()).toMatchObject({ state: "down", downSince: lastBeat });
  });

  it("together with the object, as in a deploy, never makes the node down while its agent comes back", async ({
    expect,
  }) => {
    const { node } = await healthyNode();
    await ringUntil(node, clock.now() + 115_000);
    await evictDurableObject(node.stub, { webSockets: "close" });
    await clock.forward(4_000);
    await TestAgent.join(node.stub, 2, { status: SYNCED });
    await ringUntil(node, clock.now() + 119_999);
    expect(await node.states()).toEqual([]);
  });
});

describe("an agent's return", () => {
  it("within 120 s on the same connection leaves no trace", async ({ expect }) => {
    const { node, agent } = await healthyNode();
    const before = clock.now();
    await ringUntil(node, before + 110_000);
    await agent.ping();
    await ringUntil(node, before + 220_000);
    await agent.ping();
    await ringUntil(node, before + 330_000);
    expect((await node.stub.view()).state).toBe("healthy");
    expect(await node.events()).toEqual([]);
  });

  it("after it was down is a new connection that brings the node back at once", async ({ expect }) => {
    const { node, agent } = await healthyNode();
    await ringUntil(node, clock.now() + 150_000);
    await agent.until(() => agent.closed !== null);
    expect((await node.stub.view()).state).toBe("down");
    await TestAgent.join(node.stub, 2, { status: SYNCED });
    expect(await node.stub.view()).toMatchObject({ state: "healthy", downSince: null });
    expect(await node.states()).toEqual(["down", "healthy"]);
  });

  it("after an eviction needs no new session: beats on the hibernating socket count", async ({ expect }) => {
    const { node, agent } = await healthyNode();
    for (let round = 0; round < 4; round += 1) {
      await evictDurableObject(node.stub);
      await ringUntil(node, clock.now() + 100_000);
      await agent.ping();
    }
    const lastBeat = clock.now();
    expect(await node.events()).toEqual([]);
    await evictDurableObject(node.stub);
    await ringUntil(node, lastBeat + 120_000);
    expect(await node.stub.view()).toMatchObject({ state: "down", downSince: lastBeat });
  });
});

describe("a restart that took the sockets", () => {
  /** The Worker is killed: sockets are gone, nobody told the object, and only the alarm's time is left. */
  async function restart(node: TestNode, agent: TestAgent): Promise<void> {
    const rows = await node.sql("SELECT connected_at FROM installations");
    const alarmAt = await node.alarmAt();
    agent.socket.close(1000, "cut");
    await agent.until(() => agent.closed !== null);
    await node.sql(`UPDATE installations SET connected_at = ${Number(rows[0]?.connected_at)}, last_beat_at = NULL`);
    await node.drain();
    await node.setAlarm(alarmAt ?? 0);
    await evictDurableObject(node.stub);
  }

  it("with a day-old connection is a gap in our listening, not the node's silence", async ({ expect }) => {
    const { node, agent } = await healthyNode();
    for (let beat = 0; beat < 8; beat += 1) {
      await clock.forward(3_600_000);
      await agent.ping();
      await node.ringAlarm();
    }
    const armedAt = clock.now();
    await restart(node, agent);
    await clock.forward(600_000);
    await node.ringAlarm();
    expect((await node.stub.view()).state).toBe("healthy");
    expect(await node.eventsOf("listening_gap")).toEqual([
      { kind: "listening_gap", from: armedAt, to: armedAt + 600_000 },
    ]);
    await clock.forward(20_000);
    await TestAgent.join(node.stub, 2, { status: SYNCED });
    await ringUntil(node, clock.now() + 100_000);
    expect(await node.states()).toEqual([]);
  });

  it("from which the agent does not return makes the node down, dated to the start of our listening", async ({
    expect,
  }) => {
    const { node, agent } = await healthyNode();
    await ringUntil(node, clock.now() + 60_000);
    await restart(node, agent);
    await clock.forward(1_000);
    await node.stub.touch();
    const restartedAt = clock.now();
    await node.drain();
    await ringUntil(node, restartedAt + 119_999);
    expect((await node.stub.view()).state).toBe("healthy");
    await ringUntil(node, restartedAt + 120_000);
    expect(await node.stub.view()).toMatchObject({ state: "down", downSince: restartedAt });
  });

  it("counts as a gap also when the agent had left before and the alarm was missed", async ({ expect }) => {
    const { node, agent } = await healthyNode();
    agent.socket.close(1000, "bye");
    await agent.until(() => agent.closed !== null);
    await node.drain();
    const lastBeat = clock.now();
    await evictDurableObject(node.stub);
    await clock.forward(3_600_000);
    await node.ringAlarm();
    expect((await node.stub.view()).state).toBe("healthy");
    expect(await node.eventsOf("listening_gap")).toMatchObject([{ from: lastBeat, to: clock.now() }]);
  });
});
