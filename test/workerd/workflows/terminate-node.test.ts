import { evictDurableObject, introspectWorkflowInstance, type WorkflowInstanceIntrospector } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, describe, it, vi } from "vitest";
import { findSaga, reopenSaga } from "../../../db/sagas.ts";
import { COMMAND_TYPES } from "../../../domain/node/command.ts";
import { sagaId } from "../../../domain/saga/ids.ts";
import { SAGA_STEPS } from "../../../domain/saga/steps.ts";
import { NodeObject } from "../../../durable-objects/node/object.ts";
import { sweepDeps } from "../../../workers/cron/deps.ts";
import { repairSaga } from "../../../workers/cron/sagas.ts";
import { startInstance } from "../../../workers/workflows/engine.ts";
import { Fleet, query, stubOf } from "./fleet.ts";

const STEPS = SAGA_STEPS["terminate-node"];
const PROVISION_STEPS = SAGA_STEPS["provision-node"].slice(0, 13);

let fleet: Fleet;
beforeAll(() => {
  fleet = new Fleet();
});
afterAll(() => fleet[Symbol.asyncDispose]());

describe("terminating a node", { timeout: 60_000 }, () => {
  it("goes through the source's steps in order, stops the chain node first, and leaves nothing", async ({ expect }) => {
    const nodeId = await fleet.provision();
    const heard: number[] = [];
    fleet.script(nodeId, (agent, commandId, type) => {
      heard.push(type);
      agent.acknowledge(commandId);
      agent.complete(commandId);
    });
    const id = await fleet.start("terminate-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded", partialFailures: [] });
    expect(await fleet.state(nodeId)).toBe("terminated");
    expect(heard).toEqual([COMMAND_TYPES.STOP]);
    const steps = await fleet.steps(id, nodeId);
    expect(steps.map(({ name, status }) => [name, status])).toEqual(STEPS.map((name) => [name, "succeeded"]));
    expect(fleet.cloud.hosts(nodeId)).toEqual([]);
    expect(await fleet.hostRows(nodeId)).toMatchObject([{ status: "destroyed" }]);
  });

  it("ends a node whose provision never began", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    const id = await fleet.start("terminate-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded", partialFailures: [] });
    expect(await fleet.state(nodeId)).toBe("terminated");
  });

  it.concurrent.for(STEPS.slice(0, 6))("goes on and says so when %s fails for good", async (name, { expect }) => {
    const nodeId = await fleet.provision();
    const id = sagaId("terminate-node", nodeId);
    await using instance = await introspectWorkflowInstance(env.TERMINATE_NODE, id);
    await instance.modify(async (m) => {
      await m.disableRetryDelays();
      await m.mockStepError({ name }, new Error("it broke"));
    });
    await fleet.start("terminate-node", nodeId);
    const row = await fleet.ended(id);
    expect(row).toMatchObject({ status: "succeeded", partialFailures: [{ step: name, code: "internal" }] });
    expect(await fleet.state(nodeId)).toBe("terminated");
    expect(fleet.cloud.hosts(nodeId)).toEqual([]);
  });

  it.concurrent.for(STEPS)(
    "ends in terminated when the node's object is evicted after %s",
    async (name, { expect }) => {
      const nodeId = await fleet.provision();
      const id = sagaId("terminate-node", nodeId);
      await using instance = await introspectWorkflowInstance(env.TERMINATE_NODE, id);
      await fleet.start("terminate-node", nodeId);
      await instance.waitForStepResult({ name });
      await evictDurableObject(stubOf(nodeId), { webSockets: "close" });
      expect(await fleet.ended(id)).toMatchObject({ status: "succeeded" });
      expect(await fleet.state(nodeId)).toBe("terminated");
      expect(fleet.cloud.hosts(nodeId)).toEqual([]);
    },
  );

  it.concurrent.for(PROVISION_STEPS)("wins over a provision that is at %s, which unwinds", async (name, { expect }) => {
    const nodeId = await fleet.orderNode();
    const provisionId = sagaId("provision-node", nodeId);
    await using provision = await introspectWorkflowInstance(env.PROVISION_NODE, provisionId);
    await fleet.start("provision-node", nodeId);
    await provision.waitForStepResult({ name });
    const id = await fleet.start("terminate-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded" });
    expect(await fleet.state(nodeId)).toBe("terminated");
    const other = await query((db) => findSaga(db, provisionId));
    // A provision that was over before it noticed has done its work.
    expect(["superseded", "succeeded"]).toContain(other?.status);
    expect(fleet.cloud.hosts(nodeId)).toEqual([]);
    expect((await fleet.hostRows(nodeId)).every(({ status }) => status === "destroyed")).toBe(true);
    expect(fleet.cloud.created.filter(({ agent }) => agent.nodeId === nodeId).length).toBeLessThanOrEqual(1);
  });

  it("wakes a provision that waits for an agent, which unwinds at once", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.leaveUnbooted(nodeId);
    const provisionId = await fleet.start("provision-node", nodeId);
    await vi.waitUntil(() => fleet.cloud.hosts(nodeId).length === 1, 10_000);
    const id = await fleet.start("terminate-node", nodeId);
    expect(await fleet.ended(provisionId)).toMatchObject({ status: "superseded", code: "node_terminating" });
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded" });
    expect(fleet.cloud.hosts(nodeId)).toEqual([]);
  });

  it("that errored is started again by the sweep and ends in terminated", async ({ expect }) => {
    const nodeId = await fleet.provision();
    const id = sagaId("terminate-node", nodeId);
    await using instance = await introspectWorkflowInstance(env.TERMINATE_NODE, id);
    await untilErrored(instance, nodeId);
    const row = await query((db) => findSaga(db, id));
    expect(row).toMatchObject({ status: "running", restarts: 0 });
    expect(row && (await repairSaga(sweepDeps(env), row))).toBe("restart");
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded", restarts: 1 });
    expect(await fleet.state(nodeId)).toBe("terminated");
  });

  it("that was given up and is asked for again ends in terminated", async ({ expect }) => {
    const nodeId = await fleet.provision();
    const id = sagaId("terminate-node", nodeId);
    await using instance = await introspectWorkflowInstance(env.TERMINATE_NODE, id);
    await untilErrored(instance, nodeId);
    const row = await query((db) => findSaga(db, id));
    expect(row && (await repairSaga(sweepDeps(env), { ...row, restarts: 20 }))).toBe("give_up");
    expect(await fleet.ended(id)).toMatchObject({ status: "failed", code: "internal" });

    expect(await query((db) => reopenSaga(db, id, new Date()))).toBe(true);
    await startInstance(env, "terminate-node", id, { nodeId });
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded", code: null });
    expect(await fleet.state(nodeId)).toBe("terminated");
  });
});

/** Starts a terminate whose last step fails for as long as its object refuses; the object is whole again afterwards. */
async function untilErrored(instance: WorkflowInstanceIntrospector, nodeId: string): Promise<void> {
  await instance.modify((m) => m.disableRetryDelays());
  const transition = vi.spyOn(NodeObject.prototype, "transition").mockRejectedValue(new Error("it broke"));
  await fleet.start("terminate-node", nodeId);
  await instance.waitForStatus("errored");
  transition.mockRestore();
}
