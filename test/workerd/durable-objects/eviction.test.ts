import { beforeEach, describe, it, vi } from "vitest";
import type { NodeEventBody } from "../../../domain/node/node.ts";
import { SYNCED, TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { muteQueue, TestNode } from "./test-node.ts";

let clock: TestClock;
beforeEach(() => {
  vi.restoreAllMocks();
  clock = new TestClock();
  muteQueue();
});

/** Every kind of step that a node goes through; `settle` stands between two. */
async function walk(node: TestNode, settle: () => Promise<void>): Promise<NodeEventBody[]> {
  const told: NodeEventBody[] = [];
  let agent: TestAgent | null = null;
  const session = () => {
    if (agent === null) throw new Error("no session");
    return agent;
  };
  const heard = (id: string, state: string) =>
    vi.waitUntil(async () => (await node.stub.command(id)).state === state, { timeout: 5_000 });
  const steps: readonly (() => Promise<unknown>)[] = [
    () => node.stub.initialise(node.birth()),
    () => node.stub.expectInstallation(1, null),
    () => node.stub.enqueueCommand(node.request("configure")),
    async () => {
      agent = await TestAgent.join(node.stub, 1);
    },
    async () => session().until(() => session().delivered().includes("configure")),
    async () => session().acknowledge("configure"),
    () => heard("configure", "acknowledged"),
    async () => session().beat("configure"),
    async () => session().complete("configure"),
    () => heard("configure", "completed"),
    () => node.stub.transition("syncing", "provision_saga", null),
    async () => session().send({ case: "status", value: SYNCED }),
    () => vi.waitUntil(async () => (await node.stub.view()).state === "healthy", { timeout: 5_000 }),
    async () => session().ping(),
    () => clock.forward(120_000),
    () => node.ringAlarm(),
    async () => session().until(() => session().closed !== null),
    async () => {
      agent = await TestAgent.join(node.stub, 2);
    },
    () => node.stub.enqueueCommand(node.request("queued")),
    () => node.stub.cancelCommand("queued", "key:me"),
    () => node.stub.enqueueCommand(node.request("stop", { type: "STOP", graceMs: 1 })),
    async () => session().until(() => session().delivered().includes("stop")),
    async () => session().complete("stop"),
    () => heard("stop", "completed"),
    () => node.stub.transition("terminating", "terminate_saga", null),
    () => node.stub.transition("terminated", "terminate_saga", null),
    async () => told.push(...(await node.events())),
    () => node.drain(),
    () => node.stub.view(),
  ];
  for (const step of steps) {
    await step();
    await settle();
  }
  return told;
}

describe("an eviction", () => {
  it("between any two steps of a node's life changes nothing that the node tells", async ({ expect }) => {
    const undisturbed = await walk(new TestNode(), async () => undefined);
    const node = new TestNode();
    const evicted = await walk(node, () => node.evict());
    const plain = (events: readonly NodeEventBody[]) =>
      events.map((event) => ({ ...event, effectiveAt: 0, lastBeatAt: 0 }));
    expect(plain(evicted)).toEqual(plain(undisturbed));
    expect(undisturbed.filter(({ kind }) => kind === "listening_gap")).toEqual([]);
    expect(undisturbed.map((event) => ("to" in event ? event.to : ""))).toContain("down");
  });
});
