import { env } from "cloudflare:workers";
import { beforeEach, describe, it, vi } from "vitest";
import { SYNCED, TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { TestIdentity } from "./test-identity.ts";
import { muteQueue, refusalOf, TestNode } from "./test-node.ts";

let clock: TestClock;
beforeEach(() => {
  vi.restoreAllMocks();
  clock = new TestClock();
  muteQueue();
});

const REBUILT = new TestIdentity("44444444-4444-4444-8444-444444444444");

describe("replacing a node's installation", () => {
  it("sends the old agent away for good, ends what was asked of it and lets the new one in", async ({ expect }) => {
    const node = await TestNode.syncing();
    const old = await TestAgent.join(node.stub, 1, { status: SYNCED });
    await node.stub.enqueueCommand(node.request("running"));
    old.acknowledge("running");
    await expect.poll(async () => (await node.stub.command("running")).state).toBe("acknowledged");
    await node.stub.enqueueCommand(node.request("queued"));
    const view = await node.stub.replaceInstallation(2, null);
    expect(view.installations).toMatchObject([
      { generation: 1, status: "revoked", connected: false, lastBeatAt: clock.now() },
      { generation: 2, status: "active", connected: false, installationId: null, signingKey: null },
    ]);
    expect(await old.goodbye()).toEqual({ code: "agent_revoked", reconnects: false });
    for (const id of ["running", "queued"]) {
      const message = "superseded by another installation";
      expect(await node.stub.command(id)).toMatchObject({ state: "cancelled", message });
    }
    expect(await node.eventsOf("agent_disconnected")).toHaveLength(1);

    const again = await TestAgent.knock(node.stub, 2);
    expect(await again.goodbye()).toEqual({ code: "agent_revoked", reconnects: false });
    const rebuilt = await TestAgent.join(node.stub, 1, { identity: REBUILT, generation: 2, status: SYNCED });
    await node.stub.enqueueCommand(node.request("next"));
    await rebuilt.until(() => rebuilt.delivered().includes("next"));
    expect(await node.stub.view()).toMatchObject({ state: "healthy" });
  });

  it("refuses the new generation's token with the old installation's keys, tells of it, and lets the rebuilt host in", async ({
    expect,
  }) => {
    const node = await TestNode.syncing();
    await TestAgent.join(node.stub, 1, { status: SYNCED });
    await node.stub.replaceInstallation(2, null);
    const refused = { ok: false, code: "agent_conflict" };
    const { nodeId } = (await node.stub.view()).birth;
    expect(await node.stub.enroll(new TestIdentity().claim(nodeId, 2))).toMatchObject(refused);
    const stolen = { ...REBUILT.claim(nodeId, 2), signingKey: new TestIdentity().claim(nodeId).signingKey };
    expect(await node.stub.enroll(stolen)).toMatchObject(refused);
    expect(await node.eventsOf("agent_refused")).toMatchObject([{ code: "agent_conflict" }]);
    expect(await node.stub.enroll(REBUILT.claim(nodeId, 2))).toEqual({ ok: true });
  });

  it("gives the new agent the time of a silence before the node is down", async ({ expect }) => {
    const node = await TestNode.syncing();
    const old = await TestAgent.join(node.stub, 1, { status: SYNCED });
    for (let beat = 0; beat < 60; beat += 1) {
      await clock.forward(60_000);
      await old.ping();
      await node.ringAlarm();
    }
    await node.drain();
    await clock.forward(20_000);
    await node.stub.replaceInstallation(2, null);
    const replacedAt = clock.now();
    await clock.set(replacedAt + 119_999);
    await node.ringAlarm();
    expect((await node.stub.view()).state).toBe("healthy");
    await clock.set(replacedAt + 120_000);
    await node.ringAlarm();
    expect(await node.stub.view()).toMatchObject({ state: "down", downSince: replacedAt });
    expect(await node.eventsOf("listening_gap")).toEqual([]);
  });

  it("asked again changes nothing, and tells who waits when the agent is there", async ({ expect }) => {
    const sent: unknown[] = [];
    const instance = Object.assign(Object.create(null), {
      status: async () => ({ status: "waiting" }),
      sendEvent: async (event: unknown) => void sent.push(event),
    });
    // The engine is told through whichever workflow waits.
    vi.spyOn(env.PROVISION_NODE, "get").mockResolvedValue(instance);
    const wait = { workflow: "provision-node", instanceId: "reenroll-x", eventType: "agent-ready-2" } as const;
    const node = await TestNode.syncing();
    await TestAgent.join(node.stub, 1);
    await node.stub.replaceInstallation(2, wait);
    const events = await node.events();
    await node.stub.replaceInstallation(2, wait);
    expect(await node.events()).toEqual(events);
    const rebuilt = await TestAgent.join(node.stub, 1, { identity: REBUILT, generation: 2 });
    await clock.forward(1);
    await node.ringAlarm();
    expect(sent).toEqual([{ type: "agent-ready-2", payload: { generation: 2 } }]);
    await node.stub.replaceInstallation(2, null);
    await rebuilt.ping();
    expect(rebuilt.closed).toBeNull();
  });

  it("wakes a saga that waits for the one that is replaced", async ({ expect }) => {
    const node = await TestNode.syncing();
    const wait = { workflow: "provision-node", instanceId: "x", eventType: "agent-ready-1" } as const;
    await node.stub.expectInstallation(1, wait);
    await node.stub.replaceInstallation(2, null);
    expect(await node.sql("SELECT kind FROM timers")).toEqual([{ kind: "saga_event" }]);
  });

  it("is refused before there is an agent, after the node's end, and for a generation that is past", async ({
    expect,
  }) => {
    const node = await TestNode.born();
    const replace = (generation: number) => refusalOf(() => node.stub.replaceInstallation(generation, null));
    expect(await replace(2)).toMatchObject({ code: "invalid_transition" });
    await node.stub.transition("syncing", "provision_saga", null);
    await node.stub.replaceInstallation(2, null);
    expect(await replace(1)).toMatchObject({ code: "invalid_transition" });
    await node.stub.transition("terminating", "terminate_saga", null);
    expect(await replace(3)).toMatchObject({ code: "node_terminating" });
    await node.stub.transition("terminated", "terminate_saga", null);
    expect(await replace(3)).toMatchObject({ code: "node_ended" });
  });
});
