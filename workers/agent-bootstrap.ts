import { bytesToHex } from "@noble/hashes/utils.js";
import { deriveNodeToken } from "../domain/auth/node-token.ts";
import type { Config } from "../domain/config.ts";
import { controlSigners } from "../domain/identity/control-key.ts";
import type { AgentBootstrap } from "../integrations/infrastructure/provider.ts";

/** What an agent of this generation is told at its first boot. It holds the node token: it is for the host alone. */
export async function agentBootstrap(config: Config, nodeId: string, generation: number): Promise<AgentBootstrap> {
  const { PUBLIC_URL, BRIDGE_URL, MASTER_SECRET, CONTROL_KEY_VERSION } = config;
  return {
    nodeId,
    generation,
    controlUrl: PUBLIC_URL,
    bridgeUrl: BRIDGE_URL ?? null,
    controlKeys: controlSigners(MASTER_SECRET, CONTROL_KEY_VERSION).map(({ keyId, publicKey }) => ({
      keyId,
      publicKey: bytesToHex(publicKey),
    })),
    nodeToken: await deriveNodeToken(MASTER_SECRET, nodeId, generation),
  };
}
