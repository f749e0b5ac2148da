import { evictDurableObject } from "cloudflare:test";
import { beforeEach, describe, it, vi } from "vitest";
import { SYNCED, TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { muteQueue, refusalOf, TestNode } from "./test-node.ts";

let clock: TestClock;
let queue: ReturnType<typeof muteQueue>;
beforeEach(() => {
  vi.restoreAllMocks();
  clock = new TestClock();
  queue = muteQueue();
});

describe("a node's birth", () => {
  it("makes it `provisioning` once; the same birth again changes nothing and another is refused", async ({
    expect,
  }) => {
    const node = new TestNode();
    const born = await node.stub.initialise(node.birth());
    expect(born).toMatchObject({ state: "provisioning", stateVersion: 1, incarnation: clock.now(), nextDue: null });
    await evictDurableObject(node.stub);
    expect(await node.stub.initialise(node.birth())).toEqual(born);
    expect(await refusalOf(() => node.stub.initialise(node.birth({ region: "moon" })))).toMatchObject({
      code: "incarnation_conflict",
    });
    expect(await node.states()).toEqual(["provisioning"]);
  });

  it("is needed before anything else", async ({ expect }) => {
    const { stub } = new TestNode();
    const missing = { code: "node_not_found" };
    expect(await refusalOf(() => stub.view())).toMatchObject(missing);
    expect(await refusalOf(() => stub.touch())).toMatchObject(missing);
    expect(await refusalOf(() => stub.transition("syncing", "provision_saga", null))).toMatchObject(missing);
    expect(await refusalOf(() => stub.readOutbox(0, 10))).toMatchObject(missing);
  });
});

describe("a node's states", () => {
  it("follow the table, bump the version and are told of in the same change", async ({ expect }) => {
    const node = await TestNode.born();
    expect(await refusalOf(() => node.stub.transition("healthy", "provision_saga", null))).toMatchObject({
      code: "invalid_transition",
      details: { from: "provisioning", to: "healthy" },
    });
    const syncing = await node.stub.transition("syncing", "provision_saga", "started");
    expect(syncing).toMatchObject({ state: "syncing", stateVersion: 2 });
    expect(await node.eventsOf("state_changed")).toMatchObject([
      { from: null, to: "provisioning" },
      { from: "provisioning", to: "syncing", trigger: "provision_saga", forced: false, reason: "started" },
    ]);
  });

  it("answer a saga that asks again with the node as it is", async ({ expect }) => {
    const node = await TestNode.syncing();
    await TestAgent.join(node.stub, 1, { status: SYNCED });
    expect(await node.stub.transition("syncing", "provision_saga", null)).toMatchObject({ state: "healthy" });
    expect(await node.states()).toEqual(["provisioning", "syncing", "healthy"]);
  });

  it("can be forced, with the name of who did it", async ({ expect }) => {
    const node = await TestNode.syncing();
    await node.stub.forceTransition("degraded", "operator", "by hand", "key:admin");
    expect((await node.eventsOf("state_changed")).at(-1)).toMatchObject({
      to: "degraded",
      forced: true,
      actor: "key:admin",
      reason: "by hand",
    });
    await node.stub.forceTransition("failed", "compensation", "gone", "saga:x");
    expect(await refusalOf(() => node.stub.forceTransition("syncing", "operator", "back", "key:admin"))).toMatchObject({
      code: "node_ended",
    });
  });

  it("degraded ends after 60 s of life", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1, { status: SYNCED });
    await node.stub.forceTransition("degraded", "operator", "by hand", "key:admin");
    await node.drain();
    const since = clock.now();
    await clock.set(since + 59_999);
    await agent.ping();
    await node.ringAlarm();
    expect((await node.stub.view()).state).toBe("degraded");
    await clock.set(since + 60_000);
    await node.ringAlarm();
    expect((await node.stub.view()).state).toBe("healthy");
  });
});

describe("the outbox", () => {
  it("is read from any position as often as wanted, and forgets only what was purged", async ({ expect }) => {
    const node = await TestNode.syncing();
    const all = await node.stub.readOutbox(0, 100);
    expect(await node.stub.readOutbox(0, 100)).toEqual(all);
    expect(all.projection).toMatchObject({ state: "syncing", stateVersion: 2 });
    const [first, second] = all.events;
    expect(await node.stub.readOutbox(first?.position ?? 0, 1)).toMatchObject({ events: [second] });
    await node.stub.purgeOutbox(all.incarnation, first?.position ?? 0);
    await node.stub.purgeOutbox(all.incarnation, first?.position ?? 0);
    expect((await node.stub.readOutbox(0, 100)).events).toEqual([second]);
    expect(await refusalOf(() => node.stub.purgeOutbox(1, 99))).toMatchObject({ code: "incarnation_conflict" });
  });

  it("never uses a position twice", async ({ expect }) => {
    const node = await TestNode.syncing();
    const before = (await node.stub.readOutbox(0, 100)).events.at(-1)?.position ?? 0;
    await node.drain();
    await evictDurableObject(node.stub);
    await node.stub.transition("terminating", "terminate_saga", null);
    const after = (await node.stub.readOutbox(0, 100)).events[0]?.position ?? 0;
    expect(after).toBeGreaterThan(before);
  });

  it("wakes its reader at each change, and each 30 s while it stays unread", async ({ expect }) => {
    const node = await TestNode.born();
    const calls = queue.mock.calls.length;
    expect(calls).toBeGreaterThanOrEqual(1);
    expect(queue).toHaveBeenLastCalledWith({ nodeId: node.nodeId });
    for (let round = 1; round <= 3; round += 1) {
      await clock.forward(30_000);
      await node.ringAlarm();
      expect(queue).toHaveBeenCalledTimes(calls + round);
    }
    await node.drain();
    await clock.forward(30_000);
    await node.ringAlarm();
    expect(queue).toHaveBeenCalledTimes(calls + 3);
  });

  it("survives a queue that takes nothing", async ({ expect }) => {
    queue.mockRejectedValue(new Error("queue is down"));
    const node = await TestNode.syncing();
    await clock.forward(30_000);
    await node.ringAlarm();
    expect(await node.alarmAt()).not.toBeNull();
    expect(await node.states()).toEqual(["provisioning", "syncing"]);
  });
});

describe("a node's end", () => {
  it("keeps everything until the outbox has been read, and then one row that still answers", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1);
    agent.status(3, { rpc: "http://127.0.0.1:8545" });
    await expect.poll(async () => Object.keys((await node.stub.view()).endpoints)).toEqual(["rpc"]);
    await node.stub.enqueueCommand(node.request("c1"));
    await node.stub.transition("terminating", "terminate_saga", null);
    await node.stub.transition("terminated", "terminate_saga", null);
    expect(await node.stub.transition("terminated", "terminate_saga", null)).toMatchObject({
      state: "terminated",
      endpoints: {},
    });
    expect(await node.stub.command("c1")).toMatchObject({ state: "cancelled" });
    const { events, incarnation } = await node.stub.readOutbox(0, 1_000);
    await node.stub.purgeOutbox(incarnation, events[0]?.position ?? 0);
    expect((await node.stub.view()).installations).toMatchObject([{ status: "revoked", connected: false }]);

    await node.drain();
    await node.drain();
    await evictDurableObject(node.stub);
    for (const table of ["installations", "commands", "outbox", "timers"]) {
      expect(await node.sql(`SELECT * FROM ${table}`), table).toEqual([]);
    }
    expect(await node.alarmAt()).toBeNull();
    expect(await node.stub.view()).toMatchObject({ state: "terminated", syncStatus: "unknown", installations: [] });
    expect(await node.stub.touch()).toMatchObject({ state: "terminated", nextDue: null });
    expect(await node.stub.initialise(node.birth())).toMatchObject({ state: "terminated" });
    expect(await refusalOf(() => node.stub.command("c1"))).toMatchObject({ code: "command_not_found" });
    expect(await refusalOf(() => node.stub.enqueueCommand(node.request("c2")))).toMatchObject({ code: "node_ended" });
    expect(await refusalOf(() => node.stub.expectInstallation(2, null))).toMatchObject({ code: "node_ended" });
    expect(await node.alarmAt()).toBeNull();
  });
});
