import { env } from "cloudflare:workers";
import { eq } from "drizzle-orm";
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, it } from "vitest";
import { markHostCreating, markHostsDestroying } from "../../../db/hosts.ts";
import { nodes, sagas } from "../../../db/schema.ts";
import { FIRST_GENERATION, hostTag } from "../../../domain/saga/ids.ts";
import { type SweepDeps, sweepDeps } from "../../../workers/cron/deps.ts";
import { sweepHosts } from "../../../workers/cron/hosts.ts";
import { config, Fleet, query } from "../workflows/fleet.ts";

const HOUR = 3_600_000;
let fleet: Fleet;
let deps: SweepDeps;
let tenant: string;
beforeEach(() => {
  fleet = new Fleet();
  // A tenant of its own, since the database is every test file's.
  tenant = `hosts-${uuidv7().slice(-12)}`;
  deps = { ...sweepDeps(env), config: { ...config, TENANT: tenant } };
});
afterEach(() => fleet[Symbol.asyncDispose]());

/** A node of the tenant, in this state as Postgres has it, with a host of this age at the provider. */
async function nodeWithHost(state: string, ageMs: number, withSaga = false): Promise<string> {
  const nodeId = await fleet.orderNode();
  await query((db) => db.update(nodes).set({ tenant, state }).where(eq(nodes.id, nodeId)));
  if (withSaga) {
    const id = await fleet.orderSaga("terminate-node", nodeId);
    await query((db) => db.update(sagas).set({ tenant }).where(eq(sagas.id, id)));
  }
  plant(hostTag(nodeId, FIRST_GENERATION), nodeId, ageMs);
  return nodeId;
}

function plant(tag: string, nodeId: string, ageMs: number): void {
  fleet.leaveUnbooted(nodeId);
  const agent = { nodeId, generation: FIRST_GENERATION, controlUrl: "http://orrery.test", nodeToken: "token" };
  fleet.cloud.plant({ tag, region: "local", instanceType: "process", agent }, Date.now() - ageMs);
}

async function mark(nodeId: string): Promise<void> {
  const place = { provider: "local", region: "local", instanceType: "process" };
  const tag = hostTag(nodeId, FIRST_GENERATION);
  await query((db) =>
    markHostCreating(db, { tag, tenant, nodeId, generation: FIRST_GENERATION, ...place }, new Date()),
  );
  await query((db) => markHostsDestroying(db, nodeId, new Date()));
}

describe("the sweep of hosts", { timeout: 60_000 }, () => {
  it("destroys old hosts of nodes that have ended, and no other", async ({ expect }) => {
    const orphans = [await nodeWithHost("terminated", 2 * HOUR), await nodeWithHost("failed", HOUR)];
    const kept = [
      await nodeWithHost("terminated", HOUR - 60_000),
      await nodeWithHost("provisioning", 2 * HOUR),
      await nodeWithHost("healthy", 2 * HOUR),
      await nodeWithHost("terminating", 2 * HOUR),
      await nodeWithHost("terminated", 2 * HOUR, true),
    ];
    const unknown = uuidv7();
    plant(hostTag(unknown, 1), unknown, 2 * HOUR);
    plant("somebody-elses-host", unknown, 2 * HOUR);
    expect(await sweepHosts(deps)).toMatchObject({ orphans: 2, unknown: 1, orphansFailed: 0 });
    for (const nodeId of orphans) expect(fleet.cloud.hosts(nodeId)).toEqual([]);
    for (const nodeId of kept) expect(fleet.cloud.hosts(nodeId)).toHaveLength(1);
    expect(fleet.cloud.hosts()).toHaveLength(kept.length + 2);
  });

  it("destroys a host that is marked for it, however young, but not while a saga is at work", async ({ expect }) => {
    const left = await nodeWithHost("failed", 0);
    const busy = await nodeWithHost("terminating", 0, true);
    await mark(left);
    await mark(busy);
    expect(await sweepHosts(deps)).toMatchObject({ marked: 1, destroyed: 1, failed: 0 });
    expect(fleet.cloud.hosts(left)).toEqual([]);
    expect(fleet.cloud.hosts(busy)).toHaveLength(1);
  });

  it("goes on with the others when a provider fails, and finds the rest at its next turn", async ({ expect }) => {
    const nodeIds = [await nodeWithHost("failed", 0), await nodeWithHost("failed", 0)];
    for (const nodeId of nodeIds) await mark(nodeId);
    fleet.cloud.fail("destroy", "unavailable");
    fleet.cloud.fail("list", "answer_lost");
    expect(await sweepHosts(deps)).toMatchObject({ marked: 2, destroyed: 1, failed: 1, orphansFailed: 1 });
    expect(await sweepHosts(deps)).toMatchObject({ marked: 2, destroyed: 1, failed: 0, orphansFailed: 0 });
    expect(fleet.cloud.hosts()).toEqual([]);
  });
});
