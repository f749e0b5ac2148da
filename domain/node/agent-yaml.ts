import { stringify } from "yaml";

/** What the agent's configuration says of whose agent it is and whom it believes; public, unlike the node token. */
export interface AgentIdentity {
  readonly nodeId: string;
  readonly generation: number;
  readonly controlUrl: string;
  readonly bridgeUrl: string | null;
  /** Public keys are 64 hex digits. */
  readonly controlKeys: readonly { readonly keyId: string; readonly publicKey: string }[];
}

/** An agent.yaml for a host whose files lie beside it: the node token in `node-token`, `state` and `data` in directories. */
export function agentYaml({ nodeId, generation, controlUrl, bridgeUrl, controlKeys }: AgentIdentity): string {
  return stringify({
    control_url: controlUrl,
    ...(bridgeUrl === null ? {} : { bridge: { url: bridgeUrl } }),
    control_keys: controlKeys.map(({ keyId, publicKey }) => ({ key_id: keyId, public_key: publicKey })),
    node_id: nodeId,
    generation,
    token_file: "node-token",
    state_dir: "state",
    data_dir: "data",
  });
}
