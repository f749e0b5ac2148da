import { stringify } from "yaml";
import { CommandType } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { chainFile } from "./agent-process.ts";
import type { ControlPeer } from "./control-peer.ts";

export interface Sent {
  readonly id: string;
  readonly type: CommandType;
  readonly ttlMs?: number;
}

const TTL_MS = 60_000;

export function sendCommand(peer: ControlPeer, { id, type, ttlMs = TTL_MS }: Sent): void {
  peer.sendCommand({ id, type, remainingTtlMs: BigInt(ttlMs) });
}

/** CONFIGURE with the anvil chain, or with another recipe for it. */
export function sendConfigure(
  peer: ControlPeer,
  id: string,
  artifactsUrl: string,
  steps?: readonly object[],
  ttlMs = TTL_MS,
  values: Readonly<Record<string, string>> = {},
): void {
  const recipe = { schema_version: "1.0", chain_profile_id: "anvil", node_type: "full", steps };
  peer.sendCommand({
    id,
    type: CommandType.CONFIGURE,
    remainingTtlMs: BigInt(ttlMs),
    payload: {
      case: "configure",
      value: {
        chain: "anvil",
        nodeType: "full",
        contentHash: "sha256:00",
        // What the test gives as values must be declared, as in any chain.
        profileYaml: chainFile("profile.yaml").replace("values:", `values:\n${declared(values)}`),
        runtimeYaml: chainFile("runtime.yaml"),
        observationYaml: chainFile("observation.yaml"),
        recipeYaml: steps === undefined ? chainFile("recipes/full.yaml") : stringify(recipe),
        values: { artifacts_url: artifactsUrl, ...values },
      },
    },
  });
}

/** A program that prints a line into `runs` and then lasts for a while. */
export function lastingSteps(seconds: number): object[] {
  return [
    {
      name: "write the program",
      type: "write_file",
      path: "bin/lasting.sh",
      mode: "0755",
      content: `#!/bin/sh\necho run >> runs\nexec sleep ${seconds}\n`,
    },
    { name: "run the program", type: "run", argv: ["bin/lasting.sh"], timeout: "5m" },
  ];
}

function declared(values: Readonly<Record<string, string>>): string {
  return Object.keys(values)
    .map((name) => `  ${name}: declared\n`)
    .join("");
}
