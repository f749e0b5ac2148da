import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { eq } from "drizzle-orm";
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, it } from "vitest";
import { nodes } from "../../../db/schema.ts";
import { type SweepDeps, sweepDeps } from "../../../workers/cron/deps.ts";
import { sweepNodeTimers } from "../../../workers/cron/node-timers.ts";
import { config, Fleet, query, stubOf } from "../workflows/fleet.ts";

const MINUTE = 60_000;
let fleet: Fleet;
let deps: SweepDeps;
let tenant: string;
beforeEach(() => {
  fleet = new Fleet();
  tenant = `timers-${uuidv7().slice(-12)}`;
  deps = { ...sweepDeps(env), config: { ...config, TENANT: tenant } };
});
afterEach(() => fleet[Symbol.asyncDispose]());

async function rowOf(nodeId: string) {
  const [row] = await query((db) => db.select().from(nodes).where(eq(nodes.id, nodeId)));
  if (row === undefined) throw new Error(`no row ${nodeId}`);
  return row;
}

/** Moves the row to the test's tenant, as if its object was last heard of then. */
async function age(nodeId: string, row: { nextDue: Date | null; touchedAt: Date | null }): Promise<void> {
  await query((db) =>
    db
      .update(nodes)
      .set({ tenant, ...row })
      .where(eq(nodes.id, nodeId)),
  );
}

describe("the sweep of node timers", { timeout: 60_000 }, () => {
  it("wakes an overdue node whose alarm was lost, and arms it again", async ({ expect }) => {
    const nodeId = await fleet.provision();
    await runInDurableObject(stubOf(nodeId), (_object, state) => state.storage.deleteAlarm());
    await age(nodeId, { nextDue: new Date(Date.now() - 2 * MINUTE), touchedAt: new Date() });
    expect(await sweepNodeTimers(deps)).toEqual({ overdue: 1, quiet: 0, failed: 0 });
    expect(await runInDurableObject(stubOf(nodeId), (_object, state) => state.storage.getAlarm())).not.toBeNull();
    expect(await sweepNodeTimers(deps)).toEqual({ overdue: 0, quiet: 0, failed: 0 });
  });

  it("touches each node once an hour, and repairs a copy that is behind", async ({ expect }) => {
    const nodeId = await fleet.provision();
    await age(nodeId, { nextDue: null, touchedAt: new Date(Date.now() - 61 * MINUTE) });
    await query((db) => db.update(nodes).set({ state: "provisioning", stateVersion: 0 }).where(eq(nodes.id, nodeId)));
    expect(await sweepNodeTimers(deps)).toEqual({ overdue: 0, quiet: 1, failed: 0 });
    expect((await rowOf(nodeId)).state).toBe(await fleet.state(nodeId));
    expect(await sweepNodeTimers(deps)).toEqual({ overdue: 0, quiet: 0, failed: 0 });
  });

  it("leaves alone what is due within a minute, what was heard of lately, and what has ended", async ({ expect }) => {
    const lately = await fleet.orderNode();
    const ended = await fleet.orderNode();
    await age(lately, { nextDue: new Date(Date.now() - MINUTE / 2), touchedAt: new Date() });
    await age(ended, { nextDue: new Date(0), touchedAt: null });
    await query((db) => db.update(nodes).set({ state: "failed" }).where(eq(nodes.id, ended)));
    expect(await sweepNodeTimers(deps)).toEqual({ overdue: 0, quiet: 0, failed: 0 });
  });

  it("gives a node that cannot be reached its next turn with all others", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    await age(nodeId, { nextDue: null, touchedAt: null });
    expect(await sweepNodeTimers(deps)).toEqual({ overdue: 0, quiet: 1, failed: 1 });
    expect(await sweepNodeTimers(deps)).toEqual({ overdue: 0, quiet: 0, failed: 0 });
  });
});
