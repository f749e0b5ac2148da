import { type Database, withDatabase } from "../../db/client.ts";
import type { Config } from "../../domain/config.ts";
import type { RandomBytes } from "../../domain/keys/key-set.ts";
import { type KeyBackups, r2KeyBackups } from "./backups.ts";

/** What keeping nodes' keys needs of the world. */
export interface KeyDeps {
  readonly config: Config;
  readonly keyBackups: KeyBackups;
  readonly random: RandomBytes;
  database<T>(work: (db: Database) => Promise<T>): Promise<T>;
  now(): number;
}

export function keyDeps(env: Env, config: Config): KeyDeps {
  return {
    config,
    keyBackups: r2KeyBackups(env.NODE_KEYS, config.TENANT),
    random: (length) => crypto.getRandomValues(new Uint8Array(length)),
    database: (work) => withDatabase(config, work),
    now: () => Date.now(),
  };
}
