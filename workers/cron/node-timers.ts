import { markTouched, nodesOverdue, nodesToTouch, writeProjection } from "../../db/node-projections.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { errorText, log } from "../../durable-objects/shared/log.ts";
import { forEachBounded } from "./bounded.ts";
import type { SweepCounts, SweepDeps } from "./deps.ts";

/**
 * Touches nodes whose object should have acted and seems not to have, and in rotation every node without news for an
 * hour: a touch runs what is past due, arms an alarm that was lost, and answers the copy for Postgres.
 */
export async function sweepNodeTimers(deps: SweepDeps): Promise<SweepCounts> {
  const { overdueMs, touchMs, touchBatch, touchParallel } = DEFAULTS.node;
  const tenant = deps.config.TENANT;
  const now = deps.now();
  const { overdue, quiet } = await deps.database(async (db) => ({
    overdue: await nodesOverdue(db, tenant, new Date(now - overdueMs), touchBatch),
    quiet: await nodesToTouch(db, tenant, new Date(now - touchMs), touchBatch),
  }));
  const nodeIds = [...new Set([...overdue, ...quiet])];
  let failed = 0;
  await forEachBounded(nodeIds, touchParallel, async (nodeId) => {
    if (!(await touchNode(deps, nodeId))) failed += 1;
  });
  return { overdue: overdue.length, quiet: quiet.length, failed };
}

/** Touches one node and copies what it answers. Answers whether it could be reached. */
async function touchNode(deps: Pick<SweepDeps, "database" | "node" | "now">, nodeId: string): Promise<boolean> {
  try {
    const projection = await deps.node(nodeId, (node) => node.touch());
    await deps.database((db) => writeProjection(db, projection, new Date(deps.now())));
    return true;
  } catch (thrown) {
    log("error", "node not touched", { node: nodeId, error: errorText(thrown) });
    await deps.database((db) => markTouched(db, nodeId, new Date(deps.now())));
    return false;
  }
}
