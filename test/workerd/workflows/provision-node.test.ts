import { evictDurableObject, introspectWorkflowInstance } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, describe, it, vi } from "vitest";
import { findNodeKeys } from "../../../db/node-keys.ts";
import { COMMAND_TYPES } from "../../../domain/node/command.ts";
import { sagaId } from "../../../domain/saga/ids.ts";
import { SAGA_STEPS } from "../../../domain/saga/steps.ts";
import type { TestAgent } from "../durable-objects/test-agent.ts";
import { Fleet, query, stubOf } from "./fleet.ts";

/** FAILURE_KIND_INTERRUPTED of the protocol. */
const INTERRUPTED = 2;
const FORWARD_STEPS = SAGA_STEPS["provision-node"].slice(0, 13);

let fleet: Fleet;
beforeAll(() => {
  fleet = new Fleet();
});
afterAll(() => fleet[Symbol.asyncDispose]());

describe("provisioning a node", { timeout: 60_000 }, () => {
  it("goes through the source's steps in order and ends in syncing, with one host and one agent", async ({
    expect,
  }) => {
    const nodeId = await fleet.orderNode();
    const id = await fleet.start("provision-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded", code: null, partialFailures: [] });
    expect(await fleet.state(nodeId)).toBe("syncing");
    const steps = await fleet.steps(id, nodeId);
    expect(steps.map(({ name }) => name)).toEqual([...FORWARD_STEPS]);
    expect(steps.filter(({ status }) => status === "skipped").map(({ name }) => name)).toEqual([
      "PrepareUserProvidedKeys",
      "CaptureChainGeneratedKeys",
    ]);
    expect(steps.every(({ status, attempts }) => status !== "failed" && status !== "running" && attempts === 1)).toBe(
      true,
    );
    expect(fleet.cloud.hosts(nodeId)).toHaveLength(1);
    expect(await fleet.hostRows(nodeId)).toMatchObject([{ status: "running", adopted: false }]);
  });

  it("hands no secret to the engine: not in parameters, not in step results", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    const id = sagaId("provision-node", nodeId);
    await using instance = await introspectWorkflowInstance(env.PROVISION_NODE, id);
    await fleet.start("provision-node", nodeId);
    await fleet.ended(id);
    const results = await Promise.all(FORWARD_STEPS.map((name) => instance.waitForStepResult({ name })));
    const token = fleet.cloud.hosts(nodeId)[0]?.request.agent.nodeToken ?? "";
    expect(token).toMatch(/^[0-9a-f]{64}$/);
    expect(JSON.stringify(results)).not.toContain(token);
    expect(JSON.stringify(await fleet.steps(id, nodeId))).not.toContain(token);
  });

  it("refuses a chain that declares a key from elsewhere before any host is paid for", async ({ expect }) => {
    const nodeId = await fleet.orderNode(
      "[{ name: mnemonic, type: secret, source: user_provided, phase: pre_provision }]",
    );
    const id = await fleet.start("provision-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "failed", code: "inputs_unsupported" });
    expect(await fleet.state(nodeId)).toBe("failed");
    expect(await fleet.hostRows(nodeId)).toEqual([]);
  });

  it("fails with the command's own code when the agent fails it, and the host is gone", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.script(nodeId, (agent, commandId, type) => {
      agent.acknowledge(commandId);
      if (type === COMMAND_TYPES.CONFIGURE)
        agent.fail(commandId, 1, "the artifact is another one", "checksum_mismatch");
      else agent.complete(commandId);
    });
    const id = await fleet.start("provision-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({
      status: "failed",
      code: "checksum_mismatch",
      message: "the artifact is another one",
    });
    expect(await fleet.state(nodeId)).toBe("failed");
    expect(fleet.cloud.hosts(nodeId)).toEqual([]);
    expect(await fleet.hostRows(nodeId)).toMatchObject([{ status: "destroyed" }]);
  });

  it("sends a command anew that a restart of the agent cut off, and gives up after three", async ({ expect }) => {
    const cutOff = (times: number) => {
      const sent: number[] = [];
      const script = (agent: TestAgent, commandId: string, type: number) => {
        sent.push(type);
        agent.acknowledge(commandId);
        if (sent.length <= times) agent.fail(commandId, INTERRUPTED, "cut off", "command_interrupted");
        else agent.complete(commandId);
      };
      return { sent, script };
    };
    const passing = cutOff(2);
    const nodeId = await fleet.orderNode();
    fleet.script(nodeId, passing.script);
    expect(await fleet.ended(await fleet.start("provision-node", nodeId))).toMatchObject({ status: "succeeded" });
    const { CONFIGURE, INJECT_KEYS, START } = COMMAND_TYPES;
    expect(passing.sent).toEqual([CONFIGURE, CONFIGURE, CONFIGURE, INJECT_KEYS, START]);

    const lasting = cutOff(Number.POSITIVE_INFINITY);
    const doomedId = await fleet.orderNode();
    fleet.script(doomedId, lasting.script);
    expect(await fleet.ended(await fleet.start("provision-node", doomedId))).toMatchObject({
      status: "failed",
      code: "command_interrupted",
    });
    expect(lasting.sent).toEqual([CONFIGURE, CONFIGURE, CONFIGURE]);
    expect(fleet.cloud.hosts(doomedId)).toEqual([]);
  });

  it("fails when no agent comes in time", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.leaveUnbooted(nodeId);
    const id = sagaId("provision-node", nodeId);
    await using instance = await introspectWorkflowInstance(env.PROVISION_NODE, id);
    await instance.modify((m) => m.forceEventTimeout({ name: "WaitForAgentReady event" }));
    await fleet.start("provision-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "failed", code: "agent_not_ready" });
    expect(fleet.cloud.hosts(nodeId)).toEqual([]);
  });

  it("does not miss an agent whose event never came", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.leaveUnbooted(nodeId);
    const id = sagaId("provision-node", nodeId);
    await using instance = await introspectWorkflowInstance(env.PROVISION_NODE, id);
    await fleet.start("provision-node", nodeId);
    await instance.waitForStepResult({ name: "RunTerraform" });
    await stubOf(nodeId).expectInstallation(1, {
      workflow: "provision-node",
      instanceId: "provision-nobody",
      eventType: "x",
    });
    fleet.boot(nodeId);
    await vi.waitUntil(() => stubOf(nodeId).isAgentReady(1), 10_000);
    // The object told somebody else; the saga's own time runs out, and it looks for itself.
    await instance.modify((m) => m.mockEvent({ type: "agent-ready-1", payload: {} }));
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded" });
  });

  it.concurrent.for(FORWARD_STEPS)(
    "ends in failed with no host and no keys when %s fails for good",
    async (name, { expect }) => {
      const nodeId = await fleet.orderNode();
      const id = sagaId("provision-node", nodeId);
      await using instance = await introspectWorkflowInstance(env.PROVISION_NODE, id);
      await instance.modify(async (m) => {
        await m.disableRetryDelays();
        await m.mockStepError({ name }, new Error("it broke"));
      });
      await fleet.start("provision-node", nodeId);
      expect(await fleet.ended(id)).toMatchObject({ status: "failed", code: "internal" });
      expect(await fleet.state(nodeId)).toBe("failed");
      expect(fleet.cloud.hosts(nodeId)).toEqual([]);
      expect((await fleet.hostRows(nodeId)).every(({ status }) => status === "destroyed")).toBe(true);
      expect((await query((db) => findNodeKeys(db, nodeId))).set).toBeNull();
      expect(await env.NODE_KEYS.head(`dev/${nodeId}.json`)).toBeNull();
      const steps = await fleet.steps(id, nodeId);
      expect(steps.filter(({ status }) => status === "failed").map((step) => step.name)).toEqual([name]);
    },
  );

  it.concurrent.for(FORWARD_STEPS)(
    "ends in syncing when the node's object is evicted after %s",
    async (name, { expect }) => {
      const nodeId = await fleet.orderNode();
      const id = sagaId("provision-node", nodeId);
      await using instance = await introspectWorkflowInstance(env.PROVISION_NODE, id);
      await fleet.start("provision-node", nodeId);
      await instance.waitForStepResult({ name });
      await evictDurableObject(stubOf(nodeId), { webSockets: "close" });
      expect(await fleet.ended(id)).toMatchObject({ status: "succeeded" });
      expect(["syncing", "healthy"]).toContain(await fleet.state(nodeId));
      expect(fleet.cloud.hosts(nodeId)).toHaveLength(1);
    },
  );
});
