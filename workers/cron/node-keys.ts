import { markKeysSettled, nodesWithKeysLeft } from "../../db/node-keys.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { errorText, log } from "../../durable-objects/shared/log.ts";
import { deleteKeys } from "../node-keys/keep.ts";
import { forEachBounded } from "./bounded.ts";
import type { SweepCounts, SweepDeps } from "./deps.ts";

/**
 * Deletes keys that are left of nodes which have ended: those that their sagas could not delete, and a backup that a step
 * which was given up long ago wrote after all.
 */
export async function sweepNodeKeys(deps: SweepDeps): Promise<SweepCounts> {
  const { settleMs, sweepBatch, sweepParallel } = DEFAULTS.keys;
  const settledBefore = new Date(deps.now() - settleMs);
  const nodeIds = await deps.database((db) => nodesWithKeysLeft(db, deps.config.TENANT, settledBefore, sweepBatch));
  const counts = { nodes: nodeIds.length, deleted: 0, failed: 0 };
  await forEachBounded(nodeIds, sweepParallel, async (nodeId) => {
    try {
      counts.deleted += await deleteKeys(deps, nodeId);
      await deps.database((db) => markKeysSettled(db, nodeId, settledBefore, new Date(deps.now())));
    } catch (thrown) {
      counts.failed += 1;
      log("error", "keys of an ended node not deleted", { node: nodeId, error: errorText(thrown) });
    }
  });
  return counts;
}
