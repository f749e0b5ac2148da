/** A host at a provider, as the control plane sees it. `providerHostId` never leaves the API. */
export interface Host {
  readonly providerHostId: string;
  readonly tag: string;
  readonly address: string;
  readonly status: "starting" | "running" | "off";
  readonly createdAt: number;
}

export interface CreateHost {
  /** Unique at the provider: the provider refuses a second live host with the same tag. */
  readonly tag: string;
  readonly region: string;
  readonly instanceType: string;
  /** What cloud-init needs to start the ops-agent. */
  readonly agent: AgentBootstrap;
}

export interface AgentBootstrap {
  readonly nodeId: string;
  readonly generation: number;
  /** The base URL of the control plane that the agent connects to. */
  readonly controlUrl: string;
  /** The bridge (grpc:// or grpcs://) that the agent tries first; null where agents connect directly. */
  readonly bridgeUrl: string | null;
  /** The control plane's public keys, pinned before anything is said: Ed25519, 64 hex digits each. */
  readonly controlKeys: readonly { readonly keyId: string; readonly publicKey: string }[];
  /** Secret: only ever passed to the provider, never stored or logged. */
  readonly nodeToken: string;
}

/**
 * What the sagas need of a place that rents hosts. Every method may be called again after a lost answer.
 * Failures carry `provider_error` or `provider_quota` of domain/errors.ts, with `details.retryable`.
 */
export interface InfrastructureProvider {
  readonly name: string;
  /** Asks for a host. A second live host with the same tag is refused by the provider: look it up with findByTag first. */
  create(request: CreateHost): Promise<Host>;
  /** Every live host that carries the tag (a lost answer is adopted through this). */
  findByTag(tag: string): Promise<readonly Host[]>;
  /** Destroys the host and all that runs on it; a host that is gone already is a success. */
  destroy(providerHostId: string): Promise<void>;
  /** Confirmed power-off: resolves only when the provider says that the host is off. */
  powerOff(providerHostId: string): Promise<void>;
  /** Every live host that this deployment owns. */
  list(): Promise<readonly Host[]>;
}
