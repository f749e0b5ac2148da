import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, it, vi } from "vitest";
import type { CommandPayload } from "../../../domain/node/command.ts";
import { TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { muteQueue, refusalOf, TestNode } from "./test-node.ts";

let clock: TestClock;
beforeEach(() => {
  vi.restoreAllMocks();
  clock = new TestClock();
  muteQueue();
});

const START: CommandPayload = { type: "START" };
const STOP: CommandPayload = { type: "STOP", graceMs: 0 };
const CONFIGURE: CommandPayload = {
  type: "CONFIGURE",
  chain: "anvil",
  nodeType: "full",
  contentHash: "sha256:00",
  profileYaml: "a: 1",
  runtimeYaml: "b: 2",
  recipeYaml: "c: 3",
  observationYaml: "d: 4",
  values: { artifacts_url: "http://a" },
};

async function connected(): Promise<{ node: TestNode; agent: TestAgent }> {
  const node = await TestNode.syncing();
  return { node, agent: await TestAgent.join(node.stub, 1) };
}

const stateOf = async (node: TestNode, id: string) => (await node.stub.command(id)).state;

describe("a command", () => {
  it("is delivered at once, watched through its life, and told of in order", async ({ expect }) => {
    const { node, agent } = await connected();
    const queued = await node.stub.enqueueCommand(node.request("c1", CONFIGURE));
    expect(queued).toMatchObject({ commandId: "c1", type: "CONFIGURE", state: "sent" });
    await agent.until(() => agent.delivered().length === 1);
    expect(agent.last("command")?.value).toMatchObject({
      id: "c1",
      type: 1,
      remainingTtlMs: 300_000n,
      payload: { case: "configure", value: { chain: "anvil", values: { artifacts_url: "http://a" } } },
    });
    agent.acknowledge("c1");
    await expect.poll(() => stateOf(node, "c1")).toBe("acknowledged");
    agent.send({ case: "commandProgress", value: { commandId: "c1", step: "download", stepIndex: 1, stepCount: 4 } });
    await expect.poll(() => stateOf(node, "c1")).toBe("running");
    agent.complete("c1", { version: "1.7.1" });
    await expect.poll(() => stateOf(node, "c1")).toBe("completed");
    const view = await node.stub.command("c1");
    expect(view).toMatchObject({ metadata: { version: "1.7.1" }, progress: { step: "download" }, code: null });
    const told = (await node.eventsOf("command_changed")).map(({ state }) => state);
    expect(told).toEqual(["queued", "sent", "acknowledged", "running", "completed"]);
  });

  it("for an agent that is away is delivered once on its return", async ({ expect }) => {
    const node = await TestNode.syncing();
    await node.stub.enqueueCommand(node.request("c1"));
    expect(await stateOf(node, "c1")).toBe("queued");
    await evictDurableObject(node.stub);
    const agent = await TestAgent.join(node.stub, 1);
    await agent.until(() => agent.delivered().length === 1);
    expect(agent.kinds()).toEqual(["welcome", "command"]);
  });

  it("is asked for twice with one key as one command, and another payload under the key is refused", async ({
    expect,
  }) => {
    const { node } = await connected();
    const first = await node.stub.enqueueCommand(node.request("c1", CONFIGURE));
    const again = await node.stub.enqueueCommand(node.request("c1", { ...CONFIGURE }));
    expect(again).toEqual(first);
    expect(
      await refusalOf(() => node.stub.enqueueCommand(node.request("c2", START, { idempotencyKey: "c1" }))),
    ).toMatchObject({
      code: "idempotency_key_reused",
    });
    expect((await node.stub.commands({ limit: 10, before: null })).items).toHaveLength(1);
  });

  it("past its time to live expires, and is not delivered to an agent that comes then", async ({ expect }) => {
    const node = await TestNode.born();
    await node.stub.enqueueCommand(node.request("c1", START, { ttlMs: 5_000 }));
    expect((await node.stub.view()).nextDue).toBe(clock.now() + 5_000);
    await evictDurableObject(node.stub);
    await clock.forward(4_999);
    await node.ringAlarm();
    expect(await stateOf(node, "c1")).toBe("queued");
    await clock.forward(1);
    await node.ringAlarm();
    expect(await node.stub.command("c1")).toMatchObject({ state: "expired", code: "command_expired" });
    const agent = await TestAgent.join(node.stub, 1);
    expect(agent.delivered()).toEqual([]);
  });

  it("sent but never confirmed is asked for again with no time left, so that the agent refuses to start it", async ({
    expect,
  }) => {
    const { node, agent } = await connected();
    await node.stub.enqueueCommand(node.request("c1", START, { ttlMs: 40_000 }));
    await clock.forward(30_000);
    await node.ringAlarm();
    await agent.until(() => agent.delivered().length === 2);
    expect(agent.last("command")?.value.remainingTtlMs).toBe(10_000n);
    await clock.forward(30_000);
    await node.ringAlarm();
    await agent.until(() => agent.delivered().length === 3);
    expect(agent.last("command")?.value.remainingTtlMs).toBe(0n);
    agent.fail("c1", 3, "too late");
    await expect.poll(() => stateOf(node, "c1")).toBe("expired");
  });

  it("that is cancelled while queued is never delivered, and later the agent is asked", async ({ expect }) => {
    const node = await TestNode.syncing();
    await node.stub.enqueueCommand(node.request("c1"));
    expect(await node.stub.cancelCommand("c1", "key:me")).toMatchObject({ state: "cancelled" });
    expect(await node.stub.cancelCommand("c1", "key:me")).toMatchObject({ state: "cancelled" });
    const agent = await TestAgent.join(node.stub, 1);
    await node.stub.enqueueCommand(node.request("c2"));
    expect(await node.stub.cancelCommand("c2", "key:me")).toMatchObject({ state: "sent", cancelRequested: true });
    await agent.until(() => agent.last("cancelCommand") !== undefined);
    await agent.leave();
    const second = await TestAgent.join(node.stub, 2);
    await second.until(() => second.last("cancelCommand") !== undefined);
    expect(second.delivered()).toEqual([]);
    second.fail("c2", 4, "cancelled");
    await expect.poll(() => stateOf(node, "c2")).toBe("cancelled");
    expect(await refusalOf(() => node.stub.cancelCommand("c3", "key:me"))).toMatchObject({ code: "command_not_found" });
  });

  it("that an agent's crash interrupted is delivered again and answered as interrupted, once", async ({ expect }) => {
    const { node, agent } = await connected();
    await node.stub.enqueueCommand(node.request("c1"));
    agent.acknowledge("c1");
    await expect.poll(() => stateOf(node, "c1")).toBe("acknowledged");
    await agent.leave();
    const back = await TestAgent.join(node.stub, 2);
    await back.until(() => back.delivered().length === 1);
    back.fail("c1", 2, "the agent stopped in the middle");
    await expect.poll(() => stateOf(node, "c1")).toBe("interrupted");
    back.complete("c1");
    await back.ping();
    expect(await node.stub.command("c1")).toMatchObject({ state: "interrupted", code: "command_interrupted" });
    await back.leave();
    const third = await TestAgent.join(node.stub, 3);
    expect(third.delivered()).toEqual([]);
  });

  it("that the agent no longer reports is lost after three beats and a minute", async ({ expect }) => {
    const { node, agent } = await connected();
    await node.stub.enqueueCommand(node.request("c1"));
    agent.acknowledge("c1");
    agent.beat("c1");
    await expect.poll(() => stateOf(node, "c1")).toBe("acknowledged");
    for (let beat = 0; beat < 3; beat += 1) {
      await clock.forward(10_000);
      agent.beat();
      await agent.ping();
      await evictDurableObject(node.stub);
    }
    await clock.forward(59_999);
    await node.ringAlarm();
    expect(await stateOf(node, "c1")).toBe("acknowledged");
    await clock.forward(1);
    await node.ringAlarm();
    expect(await node.stub.command("c1")).toMatchObject({ state: "failed", code: "command_lost" });
  });

  it("of an agent that went silent for good fails three minutes after it was last seen", async ({ expect }) => {
    const node = await TestNode.born();
    const agent = await TestAgent.join(node.stub, 1);
    await node.stub.enqueueCommand(node.request("c1"));
    agent.acknowledge("c1");
    await expect.poll(() => stateOf(node, "c1")).toBe("acknowledged");
    const seenAt = clock.now();
    for (const [at, state] of [
      [90_000, "acknowledged"],
      [179_999, "acknowledged"],
      [180_000, "failed"],
    ] as const) {
      await clock.set(seenAt + at);
      await node.ringAlarm();
      expect(await stateOf(node, "c1")).toBe(state);
    }
  });

  it("too large for a frame, or for a node without an agent, is refused", async ({ expect }) => {
    const { node } = await connected();
    const large = { ...CONFIGURE, recipeYaml: "x".repeat(256 * 1024) };
    expect(await refusalOf(() => node.stub.enqueueCommand(node.request("c1", large)))).toMatchObject({
      code: "limit_exceeded",
    });
    const bare = new TestNode();
    await bare.stub.initialise(bare.birth());
    expect(await refusalOf(() => bare.stub.enqueueCommand(bare.request("c1")))).toMatchObject({
      code: "no_installation",
    });
  });
});

describe("many commands", () => {
  it("run one at a time in the order of queueing: a thousand of them, through an eviction", async ({ expect }) => {
    const { node, agent } = await connected();
    const ids = Array.from({ length: 1_000 }, (_, index) => `c${index}`);
    await Promise.all(ids.map((id) => node.stub.enqueueCommand(node.request(id))));
    let executing = 0;
    for (const [index, id] of ids.entries()) {
      await agent.until(() => agent.delivered().length > index);
      executing = agent.delivered().length - index;
      expect(executing).toBe(1);
      if (index === 500) await evictDurableObject(node.stub);
      agent.complete(id);
    }
    await expect.poll(() => stateOf(node, "c999")).toBe("completed");
    expect(agent.delivered()).toEqual(ids);
  }, 120_000);

  it("are listed newest first, page by page", async ({ expect }) => {
    const node = await TestNode.syncing();
    for (const id of ["c1", "c2", "c3"]) await node.stub.enqueueCommand(node.request(id));
    const first = await node.stub.commands({ limit: 2, before: null });
    expect(first.items.map(({ commandId }) => commandId)).toEqual(["c3", "c2"]);
    const second = await node.stub.commands({ limit: 2, before: first.next });
    expect(second.items.map(({ commandId }) => commandId)).toEqual(["c1"]);
    expect(second.next).toBeNull();
  });
});

describe("STOP", () => {
  it("overtakes: what is queued or unconfirmed ends, what runs is asked to end, STOP goes out at once", async ({
    expect,
  }) => {
    const { node, agent } = await connected();
    await node.stub.enqueueCommand(node.request("running"));
    await node.stub.enqueueCommand(node.request("queued"));
    agent.acknowledge("running");
    await expect.poll(() => stateOf(node, "running")).toBe("acknowledged");
    await node.stub.enqueueCommand(node.request("stop", STOP));
    await agent.until(() => agent.delivered().includes("stop"));
    expect(agent.last("cancelCommand")?.value.commandId).toBe("running");
    expect(await node.stub.command("queued")).toMatchObject({ state: "cancelled", message: "superseded by STOP" });
    expect(await node.stub.command("running")).toMatchObject({ state: "acknowledged", cancelRequested: true });
    await node.stub.enqueueCommand(node.request("after"));
    expect(await stateOf(node, "after")).toBe("queued");
    agent.fail("running", 2, "pre-empted by STOP");
    agent.complete("stop");
    await agent.until(() => agent.delivered().includes("after"));
    expect(await stateOf(node, "running")).toBe("interrupted");
  });

  it("ends an unconfirmed command, and the agent hears of it", async ({ expect }) => {
    const { node, agent } = await connected();
    await node.stub.enqueueCommand(node.request("sent"));
    await node.stub.enqueueCommand(node.request("stop", STOP));
    await agent.until(() => agent.delivered().includes("stop"));
    expect(agent.last("cancelCommand")?.value.commandId).toBe("sent");
    expect(await node.stub.command("sent")).toMatchObject({ state: "cancelled", message: "superseded by STOP" });
  });

  it("of its own saga alone is taken while the node is terminating", async ({ expect }) => {
    const { node, agent } = await connected();
    await node.stub.enqueueCommand(node.request("open"));
    await node.stub.transition("terminating", "terminate_saga", null);
    expect(await stateOf(node, "open")).toBe("cancelled");
    const refused = { code: "node_terminating" };
    expect(await refusalOf(() => node.stub.enqueueCommand(node.request("c1")))).toMatchObject(refused);
    expect(await refusalOf(() => node.stub.enqueueCommand(node.request("c2", STOP)))).toMatchObject(refused);
    await node.stub.enqueueCommand(node.request("c3", STOP, { requestedBy: "saga:terminate-node-x" }));
    await agent.until(() => agent.delivered().includes("c3"));
  });
});

describe("the saga that waits for a command", () => {
  const wait = { workflow: "provision-node", instanceId: "provision-x", eventType: "command-c1" } as const;

  function engine(outcomes: readonly ("refuse" | "take" | "ended")[]) {
    const sent: unknown[] = [];
    let call = 0;
    vi.spyOn(env.PROVISION_NODE, "get").mockImplementation(async (id) => {
      const outcome = outcomes[call] ?? "take";
      call += 1;
      if (outcome === "refuse") throw new Error("instance.not_found");
      return Object.assign(Object.create(null), {
        id,
        status: async () => ({ status: outcome === "ended" ? "complete" : "waiting" }),
        sendEvent: async (event: unknown) => void sent.push(event),
      });
    });
    return { sent, calls: () => call };
  }

  it("is told by one event, and again until its engine has taken it", async ({ expect }) => {
    const { sent, calls } = engine(["refuse", "refuse", "take"]);
    const { node, agent } = await connected();
    await node.stub.enqueueCommand(node.request("c1", START, { notify: wait }));
    agent.complete("c1");
    await expect.poll(() => stateOf(node, "c1")).toBe("completed");
    await node.drain();
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      expect(sent).toEqual([]);
      await evictDurableObject(node.stub);
      await clock.set((await node.sql("SELECT due_at FROM timers")).map(({ due_at }) => Number(due_at))[0] ?? 0);
      await node.ringAlarm();
      expect(calls()).toBe(attempt);
    }
    expect(sent).toEqual([{ type: "command-c1", payload: { commandId: "c1" } }]);
    expect(await node.sql("SELECT * FROM timers")).toEqual([]);
  });

  it("is left alone once it has ended", async ({ expect }) => {
    const { sent } = engine(["ended"]);
    const { node, agent } = await connected();
    await node.stub.enqueueCommand(node.request("c1", START, { notify: wait }));
    agent.complete("c1");
    await expect.poll(() => stateOf(node, "c1")).toBe("completed");
    await node.ringAlarm();
    expect(sent).toEqual([]);
    expect(await node.sql("SELECT * FROM timers WHERE kind = 'saga_event'")).toEqual([]);
  });

  it("is woken at once by a termination, for its command and for the agent that it waits for", async ({ expect }) => {
    const { sent } = engine([]);
    const node = await TestNode.born();
    const ready = { ...wait, eventType: "agent-ready-1" };
    await node.stub.expectInstallation(1, ready);
    await node.stub.enqueueCommand(node.request("c1", START, { notify: wait }));
    await node.stub.transition("terminating", "terminate_saga", null);
    await clock.forward(1);
    await node.ringAlarm();
    expect(sent).toContainEqual({ type: "command-c1", payload: { commandId: "c1" } });
    expect(sent).toContainEqual({ type: "agent-ready-1", payload: { generation: 1 } });
  });

  it("hears of an agent that was there before it asked", async ({ expect }) => {
    const { sent } = engine([]);
    const node = await TestNode.born();
    await TestAgent.join(node.stub, 1);
    await node.stub.expectInstallation(1, { ...wait, eventType: "agent-ready-1" });
    await clock.forward(1);
    await node.ringAlarm();
    expect(sent).toEqual([{ type: "agent-ready-1", payload: { generation: 1 } }]);
  });
});
