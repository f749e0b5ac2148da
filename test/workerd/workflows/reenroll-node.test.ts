import { introspectWorkflowInstance } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, describe, it, vi } from "vitest";
import { findSaga } from "../../../db/sagas.ts";
import { COMMAND_TYPES } from "../../../domain/node/command.ts";
import { reenrolmentId } from "../../../domain/saga/ids.ts";
import { SAGA_STEPS } from "../../../domain/saga/steps.ts";
import { sweepDeps } from "../../../workers/cron/deps.ts";
import { sweepHosts } from "../../../workers/cron/hosts.ts";
import { repairSaga } from "../../../workers/cron/sagas.ts";
import { Fleet, query, stubOf } from "./fleet.ts";

let fleet: Fleet;
beforeAll(() => {
  fleet = new Fleet();
});
afterAll(() => fleet[Symbol.asyncDispose]());

async function rowOf(id: string) {
  const row = await query((db) => findSaga(db, id));
  if (row === null) throw new Error(`no row ${id}`);
  return row;
}

/** A provisioned node that was re-enrolled, and whose saga waits for the rebuilt host's agent. */
async function waiting() {
  const nodeId = await fleet.provision();
  const id = await fleet.startReenrolment(nodeId, 2);
  await vi.waitUntil(async () => (await rowOf(id)).step === "WaitForAgentReady", 10_000);
  return { nodeId, id };
}

describe("re-enrolling a node", { timeout: 60_000 }, () => {
  it("waits for the rebuilt host's agent, and does again what its disk has lost", async ({ expect }) => {
    const { nodeId, id } = await waiting();
    expect(await rowOf(id)).toMatchObject({ status: "running", step: "WaitForAgentReady" });
    const types: number[] = [];
    fleet.script(nodeId, (agent, commandId, type) => {
      types.push(type);
      agent.acknowledge(commandId);
      agent.complete(commandId);
    });
    fleet.rebuild(nodeId, 2);
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded", code: null, partialFailures: [] });
    expect((await fleet.steps(id, nodeId)).map(({ name }) => name)).toEqual([...SAGA_STEPS["reenroll-node"]]);
    expect(types).toEqual([COMMAND_TYPES.CONFIGURE, COMMAND_TYPES.INJECT_KEYS, COMMAND_TYPES.START]);
    const { installations } = await stubOf(nodeId).view();
    expect(installations).toMatchObject([
      { generation: 1, status: "revoked", connected: false },
      { generation: 2, status: "active", connected: true },
    ]);
  });

  it("leaves the host to the node: no sweep takes it, and a terminate does", async ({ expect }) => {
    const { nodeId, id } = await waiting();
    fleet.rebuild(nodeId, 2);
    await fleet.ended(id);
    const deps = sweepDeps(env);
    await sweepHosts({ ...deps, now: () => Date.now() + 7_200_000 });
    expect(fleet.cloud.hosts(nodeId)).toHaveLength(1);
    expect(await fleet.hostRows(nodeId)).toMatchObject([{ status: "running", generation: 1 }]);
    expect(await fleet.ended(await fleet.start("terminate-node", nodeId))).toMatchObject({ status: "succeeded" });
    expect(fleet.cloud.hosts(nodeId)).toEqual([]);
  });

  it("hands no secret to the engine", async ({ expect }) => {
    const nodeId = await fleet.provision();
    await using instance = await introspectWorkflowInstance(env.REENROLL_NODE, reenrolmentId(nodeId, 2));
    const id = await fleet.startReenrolment(nodeId, 2);
    fleet.rebuild(nodeId, 2);
    await fleet.ended(id);
    const names = SAGA_STEPS["reenroll-node"];
    const results = await Promise.all(names.map((name) => instance.waitForStepResult({ name })));
    expect(JSON.stringify(results)).not.toMatch(/[0-9a-f]{64}/);
  });

  it("fails when no agent comes within a day, and leaves node and host as they are", async ({ expect }) => {
    const nodeId = await fleet.provision();
    await using instance = await introspectWorkflowInstance(env.REENROLL_NODE, reenrolmentId(nodeId, 2));
    await instance.modify(async (m) => {
      for (let index = 1; index <= 24; index += 1) {
        await m.forceEventTimeout({ name: "WaitForAgentReady event", index });
      }
    });
    const id = await fleet.startReenrolment(nodeId, 2);
    expect(await fleet.ended(id)).toMatchObject({ status: "failed", code: "agent_not_ready" });
    expect(await fleet.state(nodeId)).toBe("syncing");
    expect(fleet.cloud.hosts(nodeId)).toHaveLength(1);
    expect(await fleet.hostRows(nodeId)).toMatchObject([{ status: "running" }]);
  });

  it("fails with the command's own reason, and can be asked for again", async ({ expect }) => {
    const { nodeId, id } = await waiting();
    fleet.script(nodeId, (agent, commandId) => {
      agent.acknowledge(commandId);
      agent.fail(commandId, 1, "the disk is full", "disk_full");
    });
    fleet.rebuild(nodeId, 2);
    expect(await fleet.ended(id)).toMatchObject({ status: "failed", code: "disk_full", message: "the disk is full" });
    expect(await fleet.state(nodeId)).toBe("syncing");
    expect(fleet.cloud.hosts(nodeId)).toHaveLength(1);

    fleet.script(nodeId, (agent, commandId) => {
      agent.acknowledge(commandId);
      agent.complete(commandId);
    });
    const again = await fleet.startReenrolment(nodeId, 3);
    fleet.rebuild(nodeId, 3);
    expect(await fleet.ended(again)).toMatchObject({ status: "succeeded" });
  });

  it("ends as superseded when the node is re-enrolled again before the agent came", async ({ expect }) => {
    const { nodeId, id } = await waiting();
    const again = await fleet.startReenrolment(nodeId, 3);
    expect(await fleet.ended(id)).toMatchObject({ status: "superseded", code: "saga_superseded" });
    fleet.rebuild(nodeId, 3);
    expect(await fleet.ended(again)).toMatchObject({ status: "succeeded" });
  });

  it("makes way for a terminate, which does not wait for an agent", async ({ expect }) => {
    const { nodeId, id } = await waiting();
    const terminateId = await fleet.start("terminate-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "superseded", code: "node_terminating" });
    expect(await fleet.ended(terminateId)).toMatchObject({ status: "succeeded", partialFailures: [] });
    expect(fleet.cloud.hosts(nodeId)).toEqual([]);
  });
});

describe("the sweep of a re-enrolment", { timeout: 60_000 }, () => {
  it("creates an instance whose start was lost", async ({ expect }) => {
    const nodeId = await fleet.provision();
    const id = await fleet.orderReenrolment(nodeId, 2);
    fleet.rebuild(nodeId, 2);
    expect(await repairSaga(sweepDeps(env), await rowOf(id))).toBe("create");
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded" });
  });

  it("runs an instance again that was ended by hand, and it finds what it did before", async ({ expect }) => {
    const { nodeId, id } = await waiting();
    await (await env.REENROLL_NODE.get(id)).terminate();
    expect(await repairSaga(sweepDeps(env), await rowOf(id))).toBe("reconcile");
    fleet.rebuild(nodeId, 2);
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded", restarts: 1 });
  });

  it("gives it up after its last restart without touching node or host", async ({ expect }) => {
    const { nodeId, id } = await waiting();
    const errored = { ...sweepDeps(env), instanceStatus: async () => "errored" };
    expect(await repairSaga(errored, { ...(await rowOf(id)), restarts: 20 })).toBe("give_up");
    expect(await rowOf(id)).toMatchObject({ status: "failed", code: "internal" });
    expect(await fleet.state(nodeId)).toBe("syncing");
    expect(await fleet.hostRows(nodeId)).toMatchObject([{ status: "running" }]);
  });
});
