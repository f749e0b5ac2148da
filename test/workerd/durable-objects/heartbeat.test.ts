import { evictDurableObject } from "cloudflare:test";
import { beforeEach, describe, it } from "vitest";
import { SYNCED, TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { TestNode } from "./test-node.ts";

let clock: TestClock;
beforeEach(() => {
  clock = new TestClock();
});

describe("a node's silence", () => {
  it("makes it down exactly 120 s after its last beat, and not a millisecond earlier", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1);
    await clock.forward(7_000);
    await agent.ping();
    const lastBeat = clock.now();

    await clock.set(lastBeat + 119_999);
    await node.ringAlarm();
    expect((await node.stub.view()).state).toBe("syncing");
    expect(await node.alarmAt()).toBe(lastBeat + 120_000);

    await clock.set(lastBeat + 120_000);
    await node.ringAlarm();
    const view = await node.stub.view();
    expect(view).toMatchObject({ state: "down", stateSince: lastBeat, downSince: lastBeat });
    await agent.until(() => agent.closed !== null);
    expect(await node.eventsOf("agent_disconnected")).toMatchObject([{ lastBeatAt: lastBeat }]);
  });

  it("is not there while pings come, and each alarm sets one next alarm at least 110 s ahead", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1, { status: SYNCED });
    expect(await node.states()).toEqual(["provisioning", "syncing", "healthy"]);
    await node.drain();
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
});
