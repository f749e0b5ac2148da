import { runInDurableObject } from "cloudflare:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { beforeEach, describe, it } from "vitest";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { AgentBodySchema } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { TestIdentity } from "./test-identity.ts";
import { muteQueue, refusalOf, TestNode } from "./test-node.ts";

let clock: TestClock;
beforeEach(() => {
  clock = new TestClock();
  muteQueue();
});

const STRANGER = new TestIdentity("33333333-3333-4333-8333-333333333333");
const CONFLICT = { ok: false, code: "agent_conflict", reconnectAfterMs: DEFAULTS.agent.conflictRetryMs };

describe("an enrolment", () => {
  it("binds an installation's keys once; asked again, or twice at once, it answers the same", async ({ expect }) => {
    const node = await TestNode.syncing();
    const claim = new TestIdentity().claim(node.nodeId);
    const answers = await Promise.all([node.stub.enroll(claim), node.stub.enroll(claim)]);
    await node.evict();
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
    expect(await node.refusals()).toEqual(["agent_conflict"]);
    expect((await node.stub.view()).installations).toEqual(before);
    await clock.forward(60_000);
    await node.stub.enroll(STRANGER.claim(node.nodeId));
    expect(await node.refusals()).toEqual(["agent_conflict", "agent_conflict"]);
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
    const rebuilt = new TestIdentity("44444444-4444-4444-8444-444444444444").claim(node.nodeId, 2);
    expect(await node.stub.enroll(rebuilt)).toEqual({ ok: true });
    await node.stub.forceTransition("failed", "operator", "gone", "key:admin");
    expect(await node.stub.enroll(rebuilt)).toMatchObject(revoked);
  });

  it("with keys of another length is no request at all", async ({ expect }) => {
    const node = await TestNode.syncing();
    const claim = { ...new TestIdentity().claim(node.nodeId), signingKey: new Uint8Array(31) };
    expect(await refusalOf(() => node.stub.enroll(claim))).toMatchObject({ code: "invalid_request" });
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
      expect(await node.refusals()).toEqual([code]);
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
    expect(await node.refusals()).toEqual(["frame_forged", "frame_out_of_order"]);
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
      await node.evict();
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
