import { introspectWorkflowInstance } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { eq } from "drizzle-orm";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, it, vi } from "vitest";
import { findSaga, insertSaga, type SagaRow } from "../../../db/sagas.ts";
import { sagas } from "../../../db/schema.ts";
import { sagaId } from "../../../domain/saga/ids.ts";
import { NodeObject } from "../../../durable-objects/node/object.ts";
import { type SweepDeps, sweepDeps } from "../../../workers/cron/deps.ts";
import { repairSaga, sweepSagas } from "../../../workers/cron/sagas.ts";
import { config, Fleet, query } from "../workflows/fleet.ts";

let fleet: Fleet;
let deps: SweepDeps;
beforeAll(() => {
  fleet = new Fleet();
  deps = sweepDeps(env);
});
afterAll(() => fleet[Symbol.asyncDispose]());

async function rowOf(id: string): Promise<SagaRow> {
  const row = await query((db) => findSaga(db, id));
  if (row === null) throw new Error(`no row ${id}`);
  return row;
}

describe("the sweep of sagas", { timeout: 60_000 }, () => {
  it("creates an instance whose start was lost", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    const id = await fleet.orderSaga("provision-node", nodeId);
    expect(await repairSaga(deps, await rowOf(id))).toBe("create");
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded", restarts: 0 });
  });

  it("leaves a waiting instance alone", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.leaveUnbooted(nodeId);
    const id = sagaId("provision-node", nodeId);
    await using instance = await introspectWorkflowInstance(env.PROVISION_NODE, id);
    await fleet.start("provision-node", nodeId);
    await instance.waitForStepResult({ name: "WaitForAgentReady" });
    expect(await repairSaga(deps, await rowOf(id))).toBe("none");
    expect((await rowOf(id)).status).toBe("running");
    fleet.boot(nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded" });
  });

  it("starts an errored provision again, which ends the node and leaves no host", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    const id = sagaId("provision-node", nodeId);
    await using instance = await introspectWorkflowInstance(env.PROVISION_NODE, id);
    await instance.modify((m) => m.disableRetryDelays());
    // Its compensation cannot end the node for as long as the object refuses.
    fleet.script(nodeId, (agent, commandId) => agent.fail(commandId, 1, "no", "step_failed"));
    const transition = vi.spyOn(NodeObject.prototype, "transition").mockRejectedValue(new Error("it broke"));
    await fleet.start("provision-node", nodeId);
    await instance.waitForStatus("errored");
    transition.mockRestore();
    expect(await rowOf(id)).toMatchObject({ status: "running", restarts: 0 });
    expect(await repairSaga(deps, await rowOf(id))).toBe("restart");
    expect(await fleet.ended(id)).toMatchObject({ status: "failed", restarts: 1 });
    expect(await fleet.state(nodeId)).toBe("failed");
    expect(fleet.cloud.hosts(nodeId)).toEqual([]);
  });

  it("closes the row of a provision that is over by what its node shows", async ({ expect }) => {
    const nodeId = await fleet.provision();
    const id = sagaId("provision-node", nodeId);
    await query((db) => db.update(sagas).set({ status: "running", endedAt: null }).where(eq(sagas.id, id)));
    expect(await repairSaga(deps, await rowOf(id))).toBe("reconcile");
    expect(await rowOf(id)).toMatchObject({ status: "succeeded", restarts: 0 });
  });

  it("runs an instance again that was ended by hand while its node was still provisioning", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.leaveUnbooted(nodeId);
    const id = sagaId("provision-node", nodeId);
    await using instance = await introspectWorkflowInstance(env.PROVISION_NODE, id);
    await fleet.start("provision-node", nodeId);
    await instance.waitForStepResult({ name: "WaitForAgentReady" });
    await (await env.PROVISION_NODE.get(id)).terminate();
    fleet.boot(nodeId);
    expect(await repairSaga(deps, await rowOf(id))).toBe("reconcile");
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded", restarts: 1 });
    expect(fleet.cloud.hosts(nodeId)).toHaveLength(1);
  });

  it("gives an errored provision up after its last restart: the node has failed and its host is marked", async ({
    expect,
  }) => {
    const nodeId = await fleet.orderNode();
    fleet.leaveUnbooted(nodeId);
    const id = sagaId("provision-node", nodeId);
    await using instance = await introspectWorkflowInstance(env.PROVISION_NODE, id);
    await fleet.start("provision-node", nodeId);
    await instance.waitForStepResult({ name: "WaitForAgentReady" });
    const errored: SweepDeps = { ...deps, instanceStatus: async () => "errored" };
    expect(await repairSaga(errored, { ...(await rowOf(id)), restarts: 20 })).toBe("give_up");
    expect(await rowOf(id)).toMatchObject({ status: "failed", code: "internal" });
    expect(await fleet.state(nodeId)).toBe("failed");
    expect(await fleet.hostRows(nodeId)).toMatchObject([{ status: "destroying" }]);
  });

  it("looks at the longest unseen first, in bounded batches, and one that fails holds up no other", async ({
    expect,
  }) => {
    const tenant = `sweep-${uuidv7().slice(-12)}`;
    const ids: string[] = [];
    for (let index = 0; index < 3; index += 1) {
      const nodeId = await fleet.orderNode();
      const id = sagaId("provision-node", nodeId);
      ids.push(id);
      const saga = { id, tenant, workflow: "provision-node", nodeId, requestedBy: "key:test" } as const;
      await query((db) => insertSaga(db, saga, new Date(index + 1)));
    }
    const looked: string[] = [];
    const quiet: SweepDeps = {
      ...deps,
      config: { ...config, TENANT: tenant },
      instanceStatus: async (_workflow, id) => {
        looked.push(id);
        if (id === ids[0]) throw new Error("the engine does not answer");
        return "running";
      },
    };
    expect(await sweepSagas(quiet)).toMatchObject({ looked: 3, none: 2, failed: 1 });
    expect(looked.toSorted()).toEqual(ids.toSorted());
  });
});
