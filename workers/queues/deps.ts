import { type Database, withDatabase } from "../../db/client.ts";
import { type Config, parseConfig } from "../../domain/config.ts";
import type { NodeContract } from "../../durable-objects/node/contract.ts";
import { callNode } from "../../durable-objects/shared/stubs.ts";

/** What a consumer reaches of the world. */
export interface ConsumerDeps {
  readonly config: Config;
  database<T>(work: (db: Database) => Promise<T>): Promise<T>;
  node<T>(nodeId: string, call: (node: NodeContract) => Promise<T>): Promise<T>;
  now(): number;
}

export function consumerDeps(env: Env): ConsumerDeps {
  const config = parseConfig(env);
  return {
    config,
    database: (work) => withDatabase(config, work),
    node: (nodeId, call) => callNode(env, nodeId, call),
    now: () => Date.now(),
  };
}
