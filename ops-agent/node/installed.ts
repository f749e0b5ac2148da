import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type NodeChain, parseNodeChain, recipeFile } from "../../domain/chain/parse.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { ConfigurePayload } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { writeDurably } from "../state/durable.ts";

const installedSchema = z.object({
  chain: z.string(),
  nodeType: z.string(),
  contentHash: z.string(),
  files: z.record(z.string(), z.string()),
  values: z.record(z.string(), z.string()),
});

/** What CONFIGURE brought, kept for every later START and for the next agent. */
export type Installed = z.output<typeof installedSchema>;

export function fromPayload(payload: ConfigurePayload): Installed {
  const { chain, nodeType, contentHash, profileYaml, runtimeYaml, recipeYaml, observationYaml, values } = payload;
  const files: Record<string, string> = {
    "profile.yaml": profileYaml,
    "runtime.yaml": runtimeYaml,
    [recipeFile(nodeType)]: recipeYaml,
  };
  if (observationYaml !== "") files["observation.yaml"] = observationYaml;
  return { chain, nodeType, contentHash, files, values: { ...values } };
}

/** @throws chain_invalid */
export function chainOf(installed: Installed): NodeChain {
  return parseNodeChain(installed.chain, installed.nodeType, installed.files);
}

export function saveInstalled(stateDir: string, installed: Installed): void {
  writeDurably(fileOf(stateDir), JSON.stringify(installed));
}

/**
 * What is installed, or null before the first CONFIGURE.
 * @throws configuration_invalid when the file cannot be read
 */
export function loadInstalled(stateDir: string): Installed | null {
  const file = fileOf(stateDir);
  if (!existsSync(file)) return null;
  try {
    return installedSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch (cause) {
    throw new OrreryError("configuration_invalid", `${file} cannot be read; configure the node again.`, {}, { cause });
  }
}

function fileOf(stateDir: string): string {
  return join(stateDir, "installed.json");
}
