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

/** The settings of an agent whose files lie beside its agent.yaml: the token in `node-token`, `state` and `data`. */
export function agentSettings({ nodeId, generation, controlUrl, bridgeUrl, controlKeys }: AgentIdentity) {
  return {
    control_url: controlUrl,
    ...(bridgeUrl === null ? {} : { bridge: { url: bridgeUrl } }),
    control_keys: controlKeys.map(({ keyId, publicKey }) => ({ key_id: keyId, public_key: publicKey })),
    node_id: nodeId,
    generation,
    token_file: "node-token",
    state_dir: "state",
    data_dir: "data",
  };
}

export function agentYaml(identity: AgentIdentity): string {
  return stringify(agentSettings(identity));
}
