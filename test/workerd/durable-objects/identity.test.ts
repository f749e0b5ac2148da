import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { beforeEach, describe, it } from "vitest";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { AgentBodySchema } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { SYNCED, TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { TestIdentity } from "./test-identity.ts";
import { muteQueue, refusalOf, TestNode } from "./test-node.ts";

let clock: TestClock;
beforeEach(() => {
  clock = new TestClock();
  muteQueue();
});

const { conflictRetryMs, holderAnswerMs, greetingConnections } = DEFAULTS.agent;
const STRANGER = new TestIdentity("33333333-3333-4333-8333-333333333333");
const CONFLICT = { ok: false, code: "agent_conflict", reconnectAfterMs: conflictRetryMs };

/** Everything that the node has stored. */
async function stored(node: TestNode) {
  const tables = ["node", "installations", "commands", "outbox", "timers"];
  return Promise.all(tables.map((table) => node.sql(`SELECT * FROM ${table}`)));
}

async function evict(node: TestNode): Promise<void> {
  // Only an object that runs can be evicted.
  await node.stub.view();
  await evictDurableObject(node.stub);
}

const refusals = async (node: TestNode) => (await node.eventsOf("agent_refused")).map(({ code }) => code);

describe("an enrolment", () => {
  it("binds an installation's keys once; asked again, or twice at once, it answers the same", async ({ expect }) => {
    const node = await TestNode.syncing();
    const claim = new TestIdentity().claim(node.nodeId);
    const answers = await Promise.all([node.stub.enroll(claim), node.stub.enroll(claim)]);
    await evict(node);
    expect([...answers, await node.stub.enroll(claim)]).toEqual([{ ok: true }, { ok: true }, { ok: true }]);
    expect(await node.eventsOf("agent_enrolled")).toMatchObject([{ generation: 1, signingKey: expect.any(String) }]);
    const [installation] = (await node.stub.view()).installations;
    expect(installation).toMatchObject({ installationId: claim.installationId, enrolledAt: clock.now() });
    expect(installation?.signingKey).toMatch(/^[0-9a-f]{64}$/);
    expect(installation?.sealingKey).toMatch(/^[0-9a-f]{64}$/);
  });

  it("of other keys or another installation is refused, told of once a minute, and changes nothing", async ({
    expect,
  }) => {
    const node = await TestNode.syncing();
    await node.stub.enroll(new TestIdentity().claim(node.nodeId));
    const before = (await node.stub.view()).installations;
    const { installationId } = new TestIdentity();
    for (const other of [STRANGER, new TestIdentity(installationId, "other keys"), STRANGER]) {
      expect(await node.stub.enroll(other.claim(node.nodeId))).toMatchObject(CONFLICT);
    }
    expect(await refusals(node)).toEqual(["agent_conflict"]);
    expect((await node.stub.view()).installations).toEqual(before);
    await clock.forward(60_000);
    await node.stub.enroll(STRANGER.claim(node.nodeId));
    expect(await refusals(node)).toEqual(["agent_conflict", "agent_conflict"]);
  });

  it("for a generation that is not expected (yet) may be tried again, for one that was revoked never", async ({
    expect,
  }) => {
    const node = await TestNode.syncing();
    const identity = new TestIdentity();
    expect(await node.stub.enroll(identity.claim(node.nodeId, 2))).toMatchObject({
      code: "no_installation",
      reconnectAfterMs: DEFAULTS.agent.reconnectMaxMs,
    });
    await node.stub.enroll(identity.claim(node.nodeId));
    await node.stub.replaceInstallation(2, null);
    const revoked = { ok: false, code: "agent_revoked", reconnectAfterMs: null };
    expect(await node.stub.enroll(identity.claim(node.nodeId))).toMatchObject(revoked);
    expect(await node.stub.enroll(identity.claim(node.nodeId, 2))).toEqual({ ok: true });
    await node.stub.forceTransition("failed", "operator", "gone", "key:admin");
    expect(await node.stub.enroll(identity.claim(node.nodeId, 2))).toMatchObject(revoked);
  });

  it("with keys of another length is no request at all", async ({ expect }) => {
    const node = await TestNode.syncing();
    const claim = { ...new TestIdentity().claim(node.nodeId), signingKey: new Uint8Array(31) };
    expect(await refusalOf(() => node.stub.enroll(claim))).toMatchObject({ code: "invalid_request" });
  });
});

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
    const before = await stored(node);
    const unproven = await TestAgent.dial(node.stub, 99);
    unproven.hello(99);
    unproven.opening = null;
    await unproven.until(() => unproven.challenge !== null);
    await present.ping();
    expect(await stored(node)).toEqual(before);
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
    expect(await refusals(node)).toEqual(["proof_invalid"]);
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

  it("survives the object's hibernation between any two of its messages", async ({ expect }) => {
    const node = await TestNode.syncing();
    await node.stub.enroll(new TestIdentity().claim(node.nodeId));
    const agent = await TestAgent.dial(node.stub);
    await evict(node);
    agent.hello(1, { status: SYNCED });
    const { opening } = agent;
    agent.opening = null;
    await agent.until(() => agent.challenge !== null);
    await evict(node);
    agent.opening = opening;
    agent.prove();
    await agent.until(() => agent.last("welcome") !== undefined);
    for (const [index, syncStatus] of ([2, 3, 4] as const).entries()) {
      await evict(node);
      agent.status(syncStatus);
      await node.stub.enqueueCommand(node.request(`c${index}`));
      await agent.until(() => agent.delivered().includes(`c${index}`));
      await evict(node);
      agent.complete(`c${index}`);
      await expect.poll(async () => (await node.stub.command(`c${index}`)).state).toBe("completed");
    }
    expect(await node.stub.view()).toMatchObject({ syncStatus: "stalled" });
    expect(agent.problems).toEqual([]);
    expect(agent.closed).toBeNull();
  });

  it("has so many seats: who never proves itself makes room, the lowest epoch and the oldest first", async ({
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
    const open = await runInDurableObject(node.stub, (_object, state) => {
      return state.getWebSockets().filter(({ readyState }) => readyState === WebSocket.OPEN).length;
    });
    expect(open).toBeLessThanOrEqual(greetingConnections + 1);
  });
});

describe("two connections with one installation's key", () => {
  it("are an agent and its old half-open connection: after 5 s of silence the new one takes over", async ({
    expect,
  }) => {
    const node = await TestNode.syncing();
    const halfOpen = await TestAgent.join(node.stub, 1);
    const before = await stored(node);
    const agent = await TestAgent.knock(node.stub, 2, { status: SYNCED });
    await halfOpen.until(() => halfOpen.last("probe") !== undefined);
    expect(await stored(node)).toEqual(before);
    // What had been on its way for long is no answer to the question.
    halfOpen.beat();
    await clock.forward(holderAnswerMs - 1);
    await node.ringAlarm();
    expect(agent.kinds()).toEqual([]);
    await evict(node);
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
      await evict(node);
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
    expect(await refusals(node)).toEqual(["agent_conflict"]);
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
    expect(await refusals(node)).toEqual(["agent_conflict"]);
    await present.leave();
    const again = await TestAgent.join(node.stub, 10);
    expect(again.closed).toBeNull();
  });
});

describe("a frame that the agent did not send so", () => {
  const status = (syncStatus: 2 | 4) =>
    toBinary(AgentBodySchema, create(AgentBodySchema, { body: { case: "status", value: { syncStatus } } }));

  const forgeries: readonly [string, string, (agent: TestAgent, node: TestNode) => Promise<void>][] = [
    [
      "is altered",
      "frame_forged",
      async (agent) => {
        const sealed = agent.seal(status(2));
        agent.sendMessage({ case: "sealed", value: { ...sealed, body: status(4) } });
      },
    ],
    [
      "is made up",
      "frame_forged",
      async (agent) => {
        agent.sendMessage({ case: "sealed", value: { counter: 1n, body: status(4), mac: new Uint8Array(32) } });
      },
    ],
    [
      "comes twice",
      "frame_replayed",
      async (agent) => {
        const sealed = agent.seal(status(2));
        agent.sendMessage({ case: "sealed", value: sealed });
        agent.sendMessage({ case: "sealed", value: sealed });
      },
    ],
    [
      "comes before its turn",
      "frame_out_of_order",
      async (agent) => {
        const sealed = [agent.seal(status(4)), agent.seal(status(4))];
        for (const value of sealed.toReversed()) agent.sendMessage({ case: "sealed", value });
      },
    ],
    [
      "follows one that was left out",
      "frame_out_of_order",
      async (agent) => {
        agent.seal(status(2));
        agent.status(4);
      },
    ],
    [
      "is another node's",
      "frame_forged",
      async (agent) => {
        const other = await TestNode.syncing();
        const stranger = await TestAgent.join(other.stub, 1);
        agent.sendMessage({ case: "sealed", value: stranger.seal(status(4)) });
      },
    ],
    [
      "is another session's",
      "frame_forged",
      async (agent, node) => {
        await agent.leave();
        const next = await TestAgent.join(node.stub, 2);
        next.sendMessage({ case: "sealed", value: agent.seal(status(4)) });
        expectSame(await next.goodbye(), "frame_forged");
      },
    ],
  ];

  function expectSame(ended: { readonly code: string | undefined }, code: string): void {
    if (ended.code !== code) throw new Error(`it ended as ${ended.code}`);
  }

  for (const [name, code, forge] of forgeries) {
    it(`because it ${name} ends the session as ${code}, says so once, and counts for nothing`, async ({ expect }) => {
      const node = await TestNode.syncing();
      const agent = await TestAgent.join(node.stub, 1);
      await forge(agent, node);
      if (name !== "is another session's") expect(await agent.goodbye()).toEqual({ code, reconnects: true });
      expect((await node.stub.view()).syncStatus).not.toBe("stalled");
      expect(await refusals(node)).toEqual([code]);
      const again = await TestAgent.join(node.stub, 3);
      expect(again.problems).toEqual([]);
    });
  }

  it("is told of once a minute for each way in which it is false", async ({ expect }) => {
    const node = await TestNode.syncing();
    for (let epoch = 1; epoch <= 6; epoch += 1) {
      const agent = await TestAgent.join(node.stub, epoch);
      const sealed = agent.seal(status(2));
      if (epoch % 2 === 0) agent.seal(status(2));
      agent.sendMessage({
        case: "sealed",
        value: epoch % 2 === 0 ? agent.seal(status(2)) : { ...sealed, counter: 9n },
      });
      await agent.goodbye();
    }
    expect(await refusals(node)).toEqual(["frame_forged", "frame_out_of_order"]);
  });
});

describe("what an agent met on its way", () => {
  it("is told in its next session, and becomes an event", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1);
    const report = { code: "command_forged", message: "an UPGRADE", transport: "bridge" };
    agent.send({ case: "tampering", value: report });
    agent.send({ case: "tampering", value: { ...report, code: "of_a_newer_agent" } });
    await expect
      .poll(() => node.eventsOf("tampering_reported"))
      .toMatchObject([report, { code: "internal", message: "of_a_newer_agent: an UPGRADE" }]);
  });
});

describe("the control plane's key", () => {
  it("rotates with an overlap: each agent is spoken to by the newest key that it trusts, and learns the next", async ({
    expect,
  }) => {
    const node = await TestNode.syncing();
    let trusted = ["control-1"];
    for (const [index, version] of ["1", "2", "3"].entries()) {
      await evict(node);
      await runInDurableObject(node.stub, (object) => useControlKey(object, version));
      const agent = await TestAgent.join(node.stub, index + 1, { controlKeyIds: trusted });
      expect(agent.challenge?.keyId).toBe(trusted[0]);
      await node.stub.enqueueCommand(node.request(`c${version}`));
      await agent.until(() => agent.delivered().includes(`c${version}`));
      agent.complete(`c${version}`);
      await expect.poll(async () => (await node.stub.command(`c${version}`)).state).toBe("completed");
      trusted = (agent.last("welcome")?.value.controlKeys ?? []).map(({ keyId }) => keyId);
      expect(agent.problems).toEqual([]);
      await agent.leave();
    }
    expect(trusted).toEqual(["control-3", "control-2"]);
    // An agent that was away for two rotations is not believed by mistake: it refuses, and must be enrolled anew.
    const away = await TestAgent.dial(node.stub, 9);
    away.hello(9, { controlKeyIds: ["control-1"] });
    await away.until(() => away.problems.length > 0);
    expect(away.problems).toEqual(["challenge_forged"]);
  });

  /** What a deploy with another CONTROL_KEY_VERSION does, before the object has spoken. */
  function useControlKey(object: object, version: string): void {
    const { env }: { env?: object } = object;
    if (env === undefined) throw new Error("the object has no env");
    Object.assign(env, { CONTROL_KEY_VERSION: version });
  }
});
