import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { parseSettings } from "../domain/config.ts";
import { replaceFile } from "./durable-file.ts";

const FILE = "secrets.json";
const secretsSchema = z.object({ masterSecret: z.string(), hostRunnerToken: z.string() });

/** Secrets of one development deployment. */
export interface DevelopmentSecrets extends z.output<typeof secretsSchema> {
  /** New at each start: it mints one operator key and is worthless afterwards. */
  readonly bootstrapSecret: string;
}

/** Reads the kept secrets of the data directory, or makes them. Node tokens derive from the master secret, so it must outlive a restart. */
export function developmentSecrets(dataDir: string): DevelopmentSecrets {
  const file = join(dataDir, FILE);
  if (!existsSync(file)) {
    replaceFile(file, JSON.stringify({ masterSecret: newSecret(), hostRunnerToken: newSecret() }));
  }
  const kept = parseSettings(secretsSchema, file, JSON.parse(readFileSync(file, "utf8")));
  return { ...kept, bootstrapSecret: newSecret() };
}

function newSecret(): string {
  return randomBytes(32).toString("hex");
}
