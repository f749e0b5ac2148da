import { commitOutboxBatch, readOutboxCursor } from "../../db/node-projections.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { ConsumerDeps } from "./deps.ts";

/** More rounds than any outbox needs; what is left after them is left to the next wake-up. */
const ROUNDS = 100;

/**
 * Pulls a node's outbox from the cursor, in order, until it is empty, and copies what it says to Postgres. Safe to run
 * twice at once: of two drains that read the same events one commits, and the other reads again from where that stands.
 * @returns how many events this drain committed
 * @throws node_not_found when the node has no row
 */
export async function drainOutbox(deps: ConsumerDeps, nodeId: string): Promise<number> {
  let committed = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const from = await deps.database((db) => readOutboxCursor(db, nodeId));
    if (from === null) throw new OrreryError("node_not_found", `There is no node ${nodeId}.`);
    const batch = await readBatch(deps, nodeId, from);
    if (batch.incarnation < from.incarnation) return committed;
    const counted = await deps.database((db) =>
      commitOutboxBatch(db, { nodeId, from, ...batch }, new Date(deps.now())),
    );
    // Another drain was first: read on from where it stands now.
    if (!counted) continue;
    committed += batch.events.length;
    const last = batch.events.at(-1);
    // Also when nothing was read: an earlier drain may have died between its commit and its purge.
    const through = last?.position ?? (batch.incarnation === from.incarnation ? from.position : 0);
    await deps.node(nodeId, (node) => node.purgeOutbox(batch.incarnation, through));
    if (batch.events.length < DEFAULTS.node.outboxBatch) return committed;
  }
  return committed;
}

/** An object that was created anew counts its positions from the beginning. */
async function readBatch(
  deps: ConsumerDeps,
  nodeId: string,
  from: { readonly incarnation: number; readonly position: number },
) {
  const batch = await deps.node(nodeId, (node) => node.readOutbox(from.position, DEFAULTS.node.outboxBatch));
  if (batch.incarnation === from.incarnation || from.position === 0) return batch;
  if (batch.incarnation < from.incarnation) return batch;
  return deps.node(nodeId, (node) => node.readOutbox(0, DEFAULTS.node.outboxBatch));
}
