import { evictDurableObject } from "cloudflare:test";
import { create, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { beforeEach, describe, it } from "vitest";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { AgentBodySchema, AgentMessageSchema } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { SYNCED, TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { muteQueue, TestNode } from "./test-node.ts";

let clock: TestClock;
beforeEach(() => {
  clock = new TestClock();
  muteQueue();
});

describe("a session", () => {
  it("begins with a Hello that is welcomed, and its endpoints and sync status are the node's", async ({ expect }) => {
    const node = await TestNode.syncing();
    const status = { ...SYNCED, endpoints: { rpc: "http://127.0.0.1:8545" } };
    const agent = await TestAgent.join(node.stub, 7, { status });
    expect(agent.last("welcome")?.value).toMatchObject({ protocolVersion: 2, beatIntervalMs: 10_000 });
    expect(await node.stub.view()).toMatchObject({
      state: "healthy",
      syncStatus: "synced",
      endpoints: { rpc: "http://127.0.0.1:8545" },
      installations: [{ generation: 1, status: "active", sessionEpoch: 7, connected: true, agentVersion: "0.1.0" }],
    });
    expect(await node.stub.isAgentReady(1)).toBe(true);
    expect(await node.stub.isAgentReady(2)).toBe(false);
  });

  it("answers pings without waking the object, and keeps working after hibernation", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1);
    await evictDurableObject(node.stub);
    await agent.ping();
    expect(agent.texts).toEqual(["pong"]);
    await evictDurableObject(node.stub).catch(() => undefined);
    agent.status(3);
    await expect.poll(async () => (await node.stub.view()).state).toBe("healthy");
  });

  it("that says nothing for 10 s is closed", async ({ expect }) => {
    const node = await TestNode.born();
    const agent = await TestAgent.dial(node.stub);
    await clock.forward(9_999);
    await node.ringAlarm();
    expect(agent.closed).toBeNull();
    await evictDurableObject(node.stub);
    await clock.forward(1);
    await node.ringAlarm();
    await agent.until(() => agent.closed !== null);
    expect(agent.closed).toMatchObject({ reason: "malformed_frame" });
  });

  it("is refused to hosts that do not belong to the node (any more), and to other protocols", async ({ expect }) => {
    const node = await TestNode.syncing();
    const early = await TestAgent.dial(node.stub, 1, { generation: 2 });
    early.hello(1, { generation: 2 });
    expect(await early.goodbye()).toEqual({ code: "no_installation", reconnects: true });
    for (const protocolVersion of [1, 9]) {
      const other = await TestAgent.dial(node.stub);
      other.hello(1, { protocolVersion });
      expect(await other.goodbye()).toEqual({ code: "agent_protocol_unsupported", reconnects: true });
    }
    const agent = await TestAgent.join(node.stub, 1);
    await node.stub.transition("terminating", "terminate_saga", null);
    expect(agent.closed).toBeNull();
    await node.stub.transition("terminated", "terminate_saga", null);
    expect(await agent.goodbye()).toEqual({ code: "agent_revoked", reconnects: false });
    const late = await TestAgent.knock(node.stub, 2);
    expect(await late.goodbye()).toEqual({ code: "agent_revoked", reconnects: false });
    await node.drain();
    await node.drain();
    expect((await node.stub.view()).installations).toEqual([]);
    const later = await TestAgent.knock(node.stub, 3);
    expect(await later.goodbye()).toEqual({ code: "agent_revoked", reconnects: false });
  });

  it("needs an upgrade request and a node", async ({ expect }) => {
    const node = await TestNode.born();
    expect((await node.stub.fetch("http://orrery.test/session")).status).toBe(426);
    const nobody = new TestNode();
    const upgrade = { Upgrade: "websocket" };
    expect((await node.stub.fetch("http://orrery.test/session", { headers: upgrade })).status).toBe(400);
    const headers = { ...upgrade, "Orrery-Generation": "1", "Orrery-Installation": "i", "Orrery-Epoch": "1" };
    expect((await nobody.stub.fetch("http://orrery.test/session", { headers })).status).toBe(404);
    expect(await nobody.sql("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'")).toEqual([]);
  });

  it("survives unknown messages and fields of a newer protocol", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1);
    agent.sendMessage({ case: "sealed", value: agent.seal(new Uint8Array([0xfa, 0x3f, 0x03, 1, 2, 3])) });
    const status = create(AgentBodySchema, { body: { case: "status", value: SYNCED } });
    const body = new Uint8Array([...toBinary(AgentBodySchema, status), 0xfa, 0x3f, 0x01, 9]);
    const message = create(AgentMessageSchema, { body: { case: "sealed", value: agent.seal(body) } });
    agent.socket.send(new Uint8Array([...toBinary(AgentMessageSchema, message), 0xfa, 0x3f, 0x01, 9]));
    await expect.poll(async () => (await node.stub.view()).state).toBe("healthy");
    expect(agent.closed).toBeNull();
  });
});

describe("a bad frame", () => {
  const acknowledged = (commandId: string) =>
    toBinary(AgentBodySchema, create(AgentBodySchema, { body: { case: "commandAcknowledged", value: { commandId } } }));
  const cases: readonly [string, (agent: TestAgent) => string | Uint8Array | null, string][] = [
    ["garbage", () => new Uint8Array([0xff, 0xff, 0xff, 0xff, 0xff]), "malformed_frame"],
    ["text that is no ping", () => "hello?", "malformed_frame"],
    ["a ping that is not the text", () => new Uint8Array([0x22, 0]), "malformed_frame"],
    ["an oversized frame", () => new Uint8Array(256 * 1024 + 1), "frame_too_large"],
    ["sealed garbage", sealed(new Uint8Array([0xff, 0xff, 0xff, 0xff, 0xff])), "malformed_frame"],
    ["a truncated body", sealed(acknowledged("c1").slice(0, -1)), "malformed_frame"],
    ["an id that is none", sealed(acknowledged("../\0")), "malformed_frame"],
  ];

  function sealed(body: Uint8Array) {
    return (agent: TestAgent) => {
      agent.sendMessage({ case: "sealed", value: agent.seal(body) });
      return null;
    };
  }

  for (const [name, frame, code] of cases) {
    it(`${name} ends the session with ${code} and changes nothing`, async ({ expect }) => {
      const node = await TestNode.syncing();
      const agent = await TestAgent.join(node.stub, 1);
      const before = await node.stub.view();
      const raw = frame(agent);
      if (raw !== null) agent.socket.send(raw);
      expect(await agent.goodbye()).toEqual({ code, reconnects: true });
      const after = await node.stub.view();
      expect({ state: after.state, syncStatus: after.syncStatus }).toEqual({
        state: before.state,
        syncStatus: before.syncStatus,
      });
      const again = await TestAgent.join(node.stub, 2);
      expect(again.closed).toBeNull();
    });
  }

  it("before the Hello, or a second Hello, ends the session", async ({ expect }) => {
    const node = await TestNode.syncing();
    const hasty = await TestAgent.dial(node.stub);
    hasty.sendMessage({ case: "proof", value: {} });
    await hasty.until(() => hasty.closed !== null);
    expect(hasty.closed).toMatchObject({ reason: "malformed_frame" });
    const twice = await TestAgent.join(node.stub, 1);
    twice.hello(2);
    expect(await twice.goodbye()).toEqual({ code: "malformed_frame", reconnects: true });
  });

  it("of any bytes is either ignored or refused with a code, and never breaks the node", async ({ expect }) => {
    const node = await TestNode.syncing();
    let epoch = 0;
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        epoch += 1;
        const agent = await TestAgent.join(node.stub, epoch);
        agent.socket.send(bytes);
        agent.socket.send("ping");
        await agent.until(() => agent.closed !== null || agent.texts.length > 0);
        if (agent.closed !== null) expect(agent.last("goodbye")?.value.code).toBe("malformed_frame");
        await agent.leave();
      }),
      { numRuns: 40 },
    );
    expect((await node.stub.view()).state).toBe("syncing");
  });

  it("keeps text that Postgres cannot store out of what the node tells", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1);
    agent.send({ case: "status", value: { syncStatus: 2, detail: "a\0b", endpoints: { rpc: "http://h:1/\0y" } } });
    await expect.poll(async () => (await node.stub.view()).endpoints).toEqual({ rpc: "http://h:1/y" });
    expect(await node.eventsOf("dimension_changed")).toMatchObject([{ to: "syncing", reason: "ab" }]);
  });

  it("takes from an agent only addresses that may be opened", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1);
    agent.status(2, { rpc: "javascript:alert(1)", "a\u001b[2J": "http://h:1", ws: "ws://h:2" });
    await expect.poll(async () => (await node.stub.view()).endpoints).toEqual({ ws: "ws://h:2" });
  });

  it("that floods its node is closed, and may come back when the minute is over", async ({ expect }) => {
    const node = await TestNode.syncing();
    const mad = await TestAgent.join(node.stub, 1);
    for (let sent = 0; sent < 5_000; sent += 1) mad.status(sent % 2 === 0 ? 2 : 3);
    expect(await mad.goodbye()).toEqual({ code: "rate_limited", reconnects: true });
    expect((await node.stub.view()).stateVersion).toBeLessThan(DEFAULTS.agent.framesPerWindow + 10);

    const again = await TestAgent.join(node.stub, 2);
    again.status(4);
    expect(await again.goodbye()).toEqual({ code: "rate_limited", reconnects: true });

    await clock.forward(DEFAULTS.agent.frameWindowMs);
    const calm = await TestAgent.join(node.stub, 3);
    calm.status(4);
    await expect.poll(async () => (await node.stub.view()).syncStatus).toBe("stalled");
    expect(calm.closed).toBeNull();
  });

  it("is not counted for what it answers to commands", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1);
    const count = DEFAULTS.agent.framesPerWindow / 2 + 50;
    for (let index = 0; index < count; index += 1) {
      await node.stub.enqueueCommand(node.request(`c${index}`));
      await agent.until(() => agent.delivered().includes(`c${index}`));
      agent.acknowledge(`c${index}`);
      agent.complete(`c${index}`);
    }
    await expect.poll(async () => (await node.stub.command(`c${count - 1}`)).state).toBe("completed");
    expect(agent.closed).toBeNull();
  });
});
