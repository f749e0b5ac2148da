import { runInDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { beforeEach, describe, it } from "vitest";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { SYNCED, TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { TestIdentity } from "./test-identity.ts";
import { muteQueue, TestNode } from "./test-node.ts";

let clock: TestClock;
beforeEach(() => {
  clock = new TestClock();
  muteQueue();
});

const { holderAnswerMs, greetingConnections } = DEFAULTS.agent;
const STRANGER = new TestIdentity("33333333-3333-4333-8333-333333333333");

describe("a session's begin", () => {
  it("is refused to an installation that has not enrolled, which may do so and come back", async ({ expect }) => {
    const node = await TestNode.syncing();
    const early = await TestAgent.dial(node.stub);
    early.hello(1);
    expect(await early.goodbye()).toEqual({ code: "agent_not_enrolled", reconnects: true });
    expect((await TestAgent.join(node.stub, 2)).problems).toEqual([]);
  });

  it("is refused where the Hello is not the one that the ticket was made for", async ({ expect }) => {
    const node = await TestNode.syncing();
    await node.stub.enroll(new TestIdentity().claim(node.nodeId));
    const other = new TestNode();
    for (const hello of [{ generation: 2 }, { installationId: STRANGER.installationId }, { nodeId: other.nodeId }]) {
      const agent = await TestAgent.dial(node.stub, 3);
      agent.hello(3, hello);
      expect(await agent.goodbye()).toEqual({ code: "agent_unauthenticated", reconnects: true });
    }
    const raised = await TestAgent.dial(node.stub, 3);
    raised.hello(4);
    expect(await raised.goodbye()).toEqual({ code: "agent_unauthenticated", reconnects: true });
  });

  it("changes nothing without a proof: not the epoch, not a row", async ({ expect }) => {
    const node = await TestNode.syncing();
    const present = await TestAgent.join(node.stub, 1, { status: SYNCED });
    const before = await node.stored();
    const unproven = await TestAgent.dial(node.stub, 99);
    unproven.hello(99);
    unproven.opening = null;
    await unproven.until(() => unproven.challenge !== null);
    await present.ping();
    expect(await node.stored()).toEqual(before);
    expect(present.kinds()).toEqual(["welcome"]);
    unproven.socket.close(1000);
    expect(await node.stub.isAgentReady(1)).toBe(true);
  });

  it("with a proof by another key is refused, and disturbs nobody", async ({ expect }) => {
    const node = await TestNode.syncing();
    const present = await TestAgent.join(node.stub, 1);
    const forger = await TestAgent.dial(node.stub, 2);
    forger.hello(2);
    forger.opening = null;
    await forger.until(() => forger.challenge !== null);
    forger.prove(STRANGER);
    expect(await forger.goodbye()).toEqual({ code: "proof_invalid", reconnects: true });
    expect(await node.stub.view()).toMatchObject({ installations: [{ sessionEpoch: 1, connected: true }] });
    expect(present.kinds()).toEqual(["welcome"]);
    expect(await node.refusals()).toEqual(["proof_invalid"]);
  });

  it("by a replayed Hello and Proof is refused: the challenge is another", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 5);
    await agent.leave();
    const replay = await TestAgent.dial(node.stub, 5);
    replay.opening = null;
    for (const bytes of agent.messages.slice(0, 2)) replay.socket.send(bytes);
    await replay.until(() => replay.closed !== null);
    expect(replay.closed).toMatchObject({ reason: "proof_invalid" });
    expect((await node.stub.view()).installations).toMatchObject([{ sessionEpoch: 5, connected: false }]);
  });

  it("with bytes that are no Hello or no Proof is closed, and the node is as before", async ({ expect }) => {
    const node = await TestNode.syncing();
    await node.stub.enroll(new TestIdentity().claim(node.nodeId));
    const before = await node.stored();
    let epoch = 0;
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), fc.boolean(), async (bytes, asProof) => {
        epoch += 1;
        const agent = await TestAgent.dial(node.stub, epoch);
        if (asProof) agent.hello(epoch);
        agent.opening = null;
        agent.sendMessage(asProof ? { case: "proof", value: { opening: bytes } } : { case: "hello", value: bytes });
        await agent.until(() => agent.closed !== null);
        expect(agent.closed?.reason).toBe(asProof ? "proof_invalid" : "malformed_frame");
      }),
      { numRuns: 30 },
    );
    expect((await node.stored())[1]).toMatchObject([{ session_epoch: 0, connected_at: null }]);
    expect((await node.stored())[2]).toEqual(before[2]);
    expect((await TestAgent.join(node.stub, epoch + 1)).problems).toEqual([]);
  });

  it("with a Hello or an Opening beyond its size, or no key for the exchange, is refused", async ({ expect }) => {
    const node = await TestNode.syncing();
    await node.stub.enroll(new TestIdentity().claim(node.nodeId));
    const long = await TestAgent.dial(node.stub, 1);
    long.hello(1, { controlKeyIds: Array.from({ length: 16 }, (_, index) => `${index}`.padEnd(200, "x")) });
    await long.until(() => long.closed !== null);
    expect(long.closed?.reason).toBe("malformed_frame");
    const verbose = await TestAgent.dial(node.stub, 1);
    verbose.hello(1, { agentVersion: "v".repeat(DEFAULTS.agent.openingBytes) });
    expect(await verbose.goodbye()).toEqual({ code: "malformed_frame", reconnects: true });
    for (const ephemeralKey of [new Uint8Array(32), new Uint8Array(31).fill(9)]) {
      const keyless = await TestAgent.dial(node.stub, 1);
      keyless.hello(1, { ephemeralKey });
      expect(await keyless.goodbye()).toEqual({ code: "malformed_frame", reconnects: true });
    }
    expect((await node.stub.view()).installations).toMatchObject([{ sessionEpoch: 0, connected: false }]);
  });

  it("waits with the largest Hello and Opening that it may have", async ({ expect }) => {
    const node = await TestNode.syncing();
    const holder = await TestAgent.join(node.stub, 1);
    const agentVersion = "v".repeat(DEFAULTS.agent.openingBytes - 10);
    const controlKeyIds = ["control-1", ...Array.from({ length: 15 }, (_, index) => `${index}`.padEnd(100, "x"))];
    const agent = await TestAgent.knock(node.stub, 2, { agentVersion, controlKeyIds });
    await holder.until(() => holder.last("probe") !== undefined);
    await clock.forward(holderAnswerMs);
    await node.ringAlarm();
    await agent.until(() => agent.last("welcome") !== undefined);
    expect(agent.problems).toEqual([]);
  });

  it("survives the object's hibernation between any two of its messages", async ({ expect }) => {
    const node = await TestNode.syncing();
    await node.stub.enroll(new TestIdentity().claim(node.nodeId));
    const agent = await TestAgent.dial(node.stub);
    await node.evict();
    agent.hello(1, { status: SYNCED });
    const { opening } = agent;
    agent.opening = null;
    await agent.until(() => agent.challenge !== null);
    await node.evict();
    agent.opening = opening;
    agent.prove();
    await agent.until(() => agent.last("welcome") !== undefined);
    for (const [index, syncStatus] of ([2, 3, 4] as const).entries()) {
      await node.evict();
      agent.status(syncStatus);
      await node.stub.enqueueCommand(node.request(`c${index}`));
      await agent.until(() => agent.delivered().includes(`c${index}`));
      await node.evict();
      agent.complete(`c${index}`);
      await expect.poll(async () => (await node.stub.command(`c${index}`)).state).toBe("completed");
    }
    expect(await node.stub.view()).toMatchObject({ syncStatus: "stalled" });
    expect(agent.problems).toEqual([]);
    expect(agent.closed).toBeNull();
  });

  it("has so many seats: who never proves itself makes room, and never crowds out the agent's higher epoch", async ({
    expect,
  }) => {
    const node = await TestNode.syncing();
    await node.stub.enroll(new TestIdentity().claim(node.nodeId));
    const idle: TestAgent[] = [];
    for (let index = 0; index < greetingConnections + 1; index += 1) {
      idle.push(await TestAgent.dial(node.stub, 1));
      await clock.forward(1);
    }
    await idle[0]?.until(() => idle[0]?.closed !== null);
    expect(idle.slice(1).map(({ closed }) => closed)).toEqual(idle.slice(1).map(() => null));

    const honest = await TestAgent.dial(node.stub, 7);
    for (let index = 0; index < 3 * greetingConnections; index += 1) await TestAgent.dial(node.stub, 6);
    honest.hello(7);
    await honest.until(() => honest.last("welcome") !== undefined);
    expect(await openConnections(node)).toBeLessThanOrEqual(greetingConnections + 1);
  });

  it("is refused at the door to whoever has the token alone: nothing is kept of it, and no seat is taken", async ({
    expect,
  }) => {
    const node = await TestNode.syncing();
    const identity = new TestIdentity();
    await node.stub.enroll(identity.claim(node.nodeId));
    const honest = await TestAgent.dial(node.stub, 2);
    const before = await node.stored();
    const subject = {
      nodeId: node.nodeId,
      generation: 1,
      installationId: identity.installationId,
      sessionEpoch: 1_000,
    };
    const others = [
      { ...subject, sessionEpoch: 999 },
      { ...subject, generation: 2 },
      { ...subject, installationId: STRANGER.installationId },
      { ...subject, nodeId: new TestNode().nodeId },
    ].map((other) => identity.knock(other));
    const signatures = ["", "0".repeat(128), STRANGER.knock(subject), identity.knock(subject).toUpperCase(), ...others];
    for (const signature of signatures) {
      for (let index = 0; index < 2 * greetingConnections; index += 1) {
        const dialled = TestAgent.dial(node.stub, subject.sessionEpoch, { signature });
        await expect(dialled).rejects.toThrow('no socket: 401 {"code":"proof_invalid"}');
      }
    }
    expect(await openConnections(node)).toBe(1);
    expect(await node.stored()).toEqual(before);
    expect(await node.refusals()).toEqual([]);
    honest.hello(2);
    await honest.until(() => honest.last("welcome") !== undefined);
  });

  it("is not kept from the agent by seats that were taken before it had enrolled", async ({ expect }) => {
    const node = await TestNode.syncing();
    for (let index = 0; index < 2 * greetingConnections; index += 1) {
      await TestAgent.dial(node.stub, 1_000 + index, { signature: "0".repeat(128) });
      await clock.forward(1);
    }
    expect((await TestAgent.join(node.stub, 1)).problems).toEqual([]);
  });
});

function openConnections(node: TestNode): Promise<number> {
  return runInDurableObject(node.stub, (_object, state) => {
    return state.getWebSockets().filter(({ readyState }) => readyState === WebSocket.OPEN).length;
  });
}
