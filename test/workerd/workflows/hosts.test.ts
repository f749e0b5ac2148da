import { introspectWorkflowInstance } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, it, vi } from "vitest";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { sagaId } from "../../../domain/saga/ids.ts";
import { NodeObject } from "../../../durable-objects/node/object.ts";
import { sweepDeps } from "../../../workers/cron/deps.ts";
import { sweepHost } from "../../../workers/cron/hosts.ts";
import { runTerraform } from "../../../workers/workflows/activities/hosts.ts";
import { sagaDeps } from "../../../workers/workflows/deps.ts";
import { Fleet, stubOf } from "./fleet.ts";

let fleet: Fleet;
beforeEach(() => {
  fleet = new Fleet();
});
afterEach(() => fleet[Symbol.asyncDispose]());

/** Provisions with no pauses between tries; answers the closed row. */
async function provision(nodeId: string) {
  const id = sagaId("provision-node", nodeId);
  await using instance = await introspectWorkflowInstance(env.PROVISION_NODE, id);
  await instance.modify((m) => m.disableRetryDelays());
  await fleet.start("provision-node", nodeId);
  // Awaited here: disposing the introspector ends the instance.
  return await fleet.ended(id);
}

describe("the host of a node", { timeout: 60_000 }, () => {
  it("is adopted when the answer of its creation was lost, and never doubled", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.cloud.fail("create", "answer_lost");
    expect(await provision(nodeId)).toMatchObject({ status: "succeeded" });
    expect(fleet.cloud.created).toHaveLength(1);
    expect(fleet.cloud.hosts()).toHaveLength(1);
    expect(await fleet.hostRows(nodeId)).toMatchObject([{ status: "running", adopted: true }]);
  });

  it("is adopted also when it appeared only while it was looked for", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.cloud.fail("create", "answer_lost");
    fleet.cloud.fail("find", "unavailable", "answer_lost");
    expect(await provision(nodeId)).toMatchObject({ status: "succeeded" });
    expect(fleet.cloud.created).toHaveLength(1);
  });

  it("is one, when a create that was given up finishes after the next one", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.cloud.fail("create", "late");
    expect(await provision(nodeId)).toMatchObject({ status: "succeeded" });
    fleet.cloud.finishLateCreates();
    expect(fleet.cloud.hosts()).toHaveLength(1);
  });

  it("is not asked for again when the provider refuses for good", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.cloud.fail("create", "refused");
    expect(await provision(nodeId)).toMatchObject({ status: "failed", code: "provider_error" });
    expect(fleet.cloud.created).toEqual([]);
    expect(
      (await fleet.steps(sagaId("provision-node", nodeId), nodeId)).find(({ name }) => name === "RunTerraform"),
    ).toMatchObject({ status: "failed", attempts: 1 });
    expect(await fleet.state(nodeId)).toBe("failed");
  });

  it("that comes after its provision has failed is destroyed by the sweep, which then stops looking", async ({
    expect,
  }) => {
    const nodeId = await fleet.orderNode();
    fleet.cloud.fail("create", "late", ...Array.from({ length: 5 }, () => "unavailable" as const));
    expect(await provision(nodeId)).toMatchObject({ status: "failed", code: "provider_error" });
    // The create was never answered, so the row is not closed.
    const [row] = await fleet.hostRows(nodeId);
    expect(row).toMatchObject({ status: "destroying", providerHostId: null });
    if (row === undefined) return;

    const deps = sweepDeps(env);
    expect(await sweepHost(deps, row)).toEqual({ destroyed: 0, closed: false });
    fleet.cloud.finishLateCreates();
    expect(await sweepHost(deps, row)).toEqual({ destroyed: 1, closed: false });
    expect(fleet.cloud.hosts()).toEqual([]);
    const later = Date.now() + DEFAULTS.infrastructure.createSettleMs;
    expect(await sweepHost({ ...deps, now: () => later }, row)).toEqual({ destroyed: 0, closed: true });
    expect(await fleet.hostRows(nodeId)).toMatchObject([{ status: "destroyed" }]);
  });

  it("that its provider does not let go is left to the sweep, and is gone once it does", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.script(nodeId, (agent, commandId) => agent.fail(commandId, 1, "no", "step_failed"));
    fleet.cloud.fail("destroy", ...Array.from({ length: 6 }, () => "unavailable" as const));
    expect(await provision(nodeId)).toMatchObject({
      status: "failed",
      code: "step_failed",
      partialFailures: [{ step: "DestroyNode", code: "provider_error" }],
    });
    expect(await fleet.state(nodeId)).toBe("failed");
    const [row] = await fleet.hostRows(nodeId);
    expect(row?.status).toBe("destroying");
    expect(row && (await sweepHost(sweepDeps(env), row))).toEqual({ destroyed: 1, closed: true });
    expect(fleet.cloud.hosts()).toEqual([]);
  });

  it("is destroyed also when the provider's search does not show it", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    expect(await provision(nodeId)).toMatchObject({ status: "succeeded" });
    fleet.cloud.fail("find", ...Array.from({ length: 20 }, () => "lie" as const));
    const id = await fleet.start("terminate-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded", partialFailures: [] });
    expect(fleet.cloud.hosts()).toEqual([]);
    expect(await fleet.state(nodeId)).toBe("terminated");
  });

  it("that is still there after its provider said that it was destroyed is destroyed again", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.script(nodeId, (agent, commandId) => agent.fail(commandId, 1, "no", "step_failed"));
    fleet.cloud.fail("destroy", "lie", "lie");
    expect(await provision(nodeId)).toMatchObject({ status: "failed", code: "step_failed", partialFailures: [] });
    expect(fleet.cloud.hosts()).toEqual([]);
    expect(await fleet.hostRows(nodeId)).toMatchObject([{ status: "destroyed" }]);
  });

  it("is never created for a node whose hosts are being destroyed, however late the try comes", async ({ expect }) => {
    const nodeId = await fleet.provision();
    const saga = { id: sagaId("provision-node", nodeId), workflow: "provision-node", nodeId, generation: 1 } as const;
    const terminate = await fleet.start("terminate-node", nodeId);
    await fleet.ended(terminate);
    // A try that the engine gave up long ago, and that had looked at the node before it was terminated.
    const view = await stubOf(nodeId).view();
    vi.spyOn(NodeObject.prototype, "view").mockResolvedValueOnce({ ...view, state: "provisioning" });
    await expect(runTerraform(sagaDeps(env), saga)).rejects.toMatchObject({ code: "saga_superseded" });
    expect(fleet.cloud.hosts()).toEqual([]);
  });
});
