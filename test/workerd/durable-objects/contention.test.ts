import { beforeEach, describe, it } from "vitest";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { SYNCED, TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { muteQueue, TestNode } from "./test-node.ts";

let clock: TestClock;
beforeEach(() => {
  clock = new TestClock();
  muteQueue();
});

const { conflictRetryMs, holderAnswerMs } = DEFAULTS.agent;

describe("two connections with one installation's key", () => {
  it("are an agent and its old half-open connection: after 5 s of silence the new one takes over", async ({
    expect,
  }) => {
    const node = await TestNode.syncing();
    const halfOpen = await TestAgent.join(node.stub, 1);
    const before = await node.stored();
    const agent = await TestAgent.knock(node.stub, 2, { status: SYNCED });
    await halfOpen.until(() => halfOpen.last("probe") !== undefined);
    expect(await node.stored()).toEqual(before);
    // What had been on its way for long is no answer to the question.
    halfOpen.beat();
    await clock.forward(holderAnswerMs - 1);
    await node.ringAlarm();
    expect(agent.kinds()).toEqual([]);
    await node.evict();
    await clock.forward(1);
    await node.ringAlarm();
    await agent.until(() => agent.last("welcome") !== undefined);
    await halfOpen.until(() => halfOpen.closed !== null);
    expect(halfOpen.last("goodbye")).toBeUndefined();
    expect(await node.stub.view()).toMatchObject({ syncStatus: "synced", installations: [{ sessionEpoch: 2 }] });
    expect(await node.eventsOf("agent_disconnected")).toEqual([]);
    expect([...halfOpen.problems, ...agent.problems]).toEqual([]);
  });

  it("are a running agent and its copy, where it answers: the copy is refused and told of", async ({ expect }) => {
    const node = await TestNode.syncing();
    const original = await TestAgent.join(node.stub, 1);
    for (const epoch of [2, 3]) {
      const copy = await TestAgent.knock(node.stub, epoch);
      await original.until(() => original.kinds().filter((kind) => kind === "probe").length === epoch - 1);
      await node.evict();
      original.alive();
      expect(await copy.goodbye()).toEqual({ code: "agent_conflict", reconnects: true });
      expect(copy.last("goodbye")?.value.reconnectAfterMs).toBe(conflictRetryMs);
    }
    await clock.forward(holderAnswerMs);
    await node.ringAlarm();
    expect(original.closed).toBeNull();
    original.status(3);
    await expect.poll(async () => (await node.stub.view()).syncStatus).toBe("synced");
    expect(await node.stub.view()).toMatchObject({ installations: [{ sessionEpoch: 1, connected: true }] });
    expect(await node.refusals()).toEqual(["agent_conflict"]);
  });

  it("are not told apart by an answer that was held back from an earlier question", async ({ expect }) => {
    const node = await TestNode.syncing();
    const halfOpen = await TestAgent.join(node.stub, 1);
    const first = await TestAgent.knock(node.stub, 2);
    await halfOpen.until(() => halfOpen.last("probe") !== undefined);
    const heldBack = halfOpen.last("probe")?.value.question;
    await first.leave();
    const agent = await TestAgent.knock(node.stub, 3);
    await halfOpen.until(() => halfOpen.kinds().filter((kind) => kind === "probe").length === 2);
    expect(halfOpen.last("probe")?.value.question).not.toBe(heldBack);
    halfOpen.alive(heldBack);
    await halfOpen.ping();
    await clock.forward(holderAnswerMs);
    await node.ringAlarm();
    await agent.until(() => agent.last("welcome") !== undefined);
  });

  it("are one when the holder leaves: the waiting one goes on at once", async ({ expect }) => {
    const node = await TestNode.syncing();
    const holder = await TestAgent.join(node.stub, 1);
    const agent = await TestAgent.knock(node.stub, 2);
    await holder.until(() => holder.last("probe") !== undefined);
    await holder.leave();
    await agent.until(() => agent.last("welcome") !== undefined);
    expect(await node.stub.isAgentReady(1)).toBe(true);
  });

  it("and a third: the later attempt waits in the earlier one's place, and no longer", async ({ expect }) => {
    const node = await TestNode.syncing();
    const holder = await TestAgent.join(node.stub, 1);
    const first = await TestAgent.knock(node.stub, 2);
    await holder.until(() => holder.last("probe") !== undefined);
    await clock.forward(holderAnswerMs - 1_000);
    const second = await TestAgent.knock(node.stub, 3);
    await first.until(() => first.closed !== null);
    const late = await TestAgent.knock(node.stub, 3);
    expect(await late.goodbye()).toEqual({ code: "agent_conflict", reconnects: true });
    await clock.forward(1_000);
    await node.ringAlarm();
    await second.until(() => second.last("welcome") !== undefined);
    expect(holder.kinds()).toEqual(["welcome", "probe"]);
  });

  it("where the original is gone leave the place to the copy, and the original is then the copy", async ({
    expect,
  }) => {
    const node = await TestNode.syncing();
    const original = await TestAgent.join(node.stub, 1);
    await original.leave();
    const copy = await TestAgent.join(node.stub, 2);
    const back = await TestAgent.knock(node.stub, 3);
    await copy.until(() => copy.last("probe") !== undefined);
    copy.alive();
    expect(await back.goodbye()).toEqual({ code: "agent_conflict", reconnects: true });
  });

  it("of which one has an old epoch: it is refused, learns the epoch and gets back in above it", async ({ expect }) => {
    const node = await TestNode.syncing();
    const present = await TestAgent.join(node.stub, 9);
    for (const epoch of [9, 4, 0]) {
      const old = await TestAgent.knock(node.stub, epoch);
      expect(await old.goodbye()).toEqual({ code: "agent_conflict", reconnects: true });
      expect(old.last("goodbye")?.value).toMatchObject({ sessionEpoch: 9n, reconnectAfterMs: conflictRetryMs });
    }
    expect(present.kinds()).toEqual(["welcome"]);
    expect(await node.refusals()).toEqual(["agent_conflict"]);
    await present.leave();
    const again = await TestAgent.join(node.stub, 10);
    expect(again.closed).toBeNull();
  });
});
