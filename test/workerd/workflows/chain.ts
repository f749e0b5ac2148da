import { env } from "cloudflare:workers";
import { chainContentHash } from "../../../domain/chain/hash.ts";
import { writeChainFiles } from "../../../workers/chain-files.ts";

/** One key that the platform makes. */
export const NODE_KEY =
  "[{ name: node_key, type: secret, source: generated, key_type: secp256k1, phase: pre_provision, file: { path: keys/node-key } }]";

/** The least chain that is one. `inputs` goes under provisioning_inputs. */
export function tinyChain(inputs: string): Record<string, string> {
  return {
    "profile.yaml": `
schema_version: "1.0"
chain_id: tiny
display_name: Tiny
network_type: devnet
node_types:
  full:
    resources: { cpu: 1, memory_gb: 1, disk_gb: 1, disk_type: ssd }
    default_providers: [local]
    providers:
      local: { instance_type: process, default_region: local, regions: [local] }
provisioning_inputs: ${inputs}
`,
    "runtime.yaml": `
schema_version: "1.0"
chain_profile_id: tiny
process: { command: bin/tiny }
ports: { rpc: 8545 }
endpoints: { rpc: http }
node_status:
  kind: json_rpc
  port: rpc
  synced: { method: eth_syncing, pointer: "", equals: false }
`,
    "recipes/full.yaml": `
schema_version: "1.0"
chain_profile_id: tiny
node_type: full
steps:
  - { name: note, type: write_file, path: note, content: tiny }
`,
  };
}

/** Stores the chain as a push does; answers its content hash. */
export async function pushTinyChain(inputs: string): Promise<string> {
  const files = tinyChain(inputs);
  const hash = await chainContentHash(files);
  await writeChainFiles(env.CHAINS, "dev", "tiny", hash, files);
  return hash;
}
