import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { choosePort, isFree } from "../agent-bridge/host-runner/ports.ts";
import { replaceFile } from "./durable-file.ts";

const portsSchema = z.record(z.string(), z.number().int().positive());

/**
 * The port that `name` had at the last start, if it is free; else a new one. Agents of hosts that are still there were
 * told the address once, so the Worker must come back at the same one.
 */
export async function keptPort(dataDir: string, name: string): Promise<number> {
  const file = join(dataDir, "ports.json");
  const kept = existsSync(file) ? portsSchema.parse(JSON.parse(readFileSync(file, "utf8"))) : {};
  const before = kept[name];
  if (before !== undefined && (await isFree(before))) return before;
  const port = await choosePort(new Set(Object.values(kept)), Math.random);
  replaceFile(file, JSON.stringify({ ...kept, [name]: port }));
  return port;
}
