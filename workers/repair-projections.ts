import { type Database, withDatabase } from "../db/client.ts";
import { nodeIdsAfter, writeProjection } from "../db/node-projections.ts";
import type { Config } from "../domain/config.ts";
import { errorText, log } from "../durable-objects/shared/log.ts";
import { callNode } from "../durable-objects/shared/stubs.ts";
import { forEachBounded } from "./cron/bounded.ts";

/** The platform lets one request have six connections at a time; one is Postgres's. */
const CONCURRENCY = 5;

export interface RepairReport {
  readonly nodes: number;
  readonly written: number;
  readonly unreachable: number;
  /** Where the next part begins; null when all nodes are done. */
  readonly nextAfter: string | null;
}

/**
 * Rebuilds the copies of up to `limit` nodes in Postgres from their objects, which are the truth. A copy that is newer
 * than what its object just said stays.
 */
export async function repairProjections(
  env: Env,
  config: Config,
  after: string | null,
  limit: number,
): Promise<RepairReport> {
  return withDatabase(config, async (db) => {
    const ids = await nodeIdsAfter(db, config.TENANT, after, limit);
    const outcomes: Outcome[] = [];
    await forEachBounded(ids, CONCURRENCY, async (id) => {
      outcomes.push(await repairNode(env, db, id));
    });
    const count = (outcome: Outcome) => outcomes.filter((other) => other === outcome).length;
    return {
      nodes: ids.length,
      written: count("written"),
      unreachable: count("unreachable"),
      nextAfter: ids.length === limit ? (ids.at(-1) ?? null) : null,
    };
  });
}

type Outcome = "written" | "kept" | "unreachable";

async function repairNode(env: Env, db: Database, nodeId: string): Promise<Outcome> {
  try {
    const projection = await callNode(env, nodeId, (node) => node.touch());
    return (await writeProjection(db, projection, new Date())) ? "written" : "kept";
  } catch (thrown) {
    log("warn", "projection not repaired", { node_id: nodeId, error: errorText(thrown) });
    return "unreachable";
  }
}
