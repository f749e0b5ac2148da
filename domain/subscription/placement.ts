import type { ChainProfile } from "../chain/profile.ts";
import { OrreryError } from "../errors.ts";

/** Where a subscription's node will run. */
export interface Placement {
  readonly provider: string;
  readonly region: string;
  readonly instanceType: string;
}

/**
 * Resolves provider, region and instance type from the chain's profile (source 000, "Subscription Lifecycle" step 3):
 * what is not wished for is the profile's first provider that this deployment has, and that provider's default region.
 * @param available the providers that this deployment has
 * @throws node_type_not_found, provider_unavailable
 */
export function choosePlacement(
  profile: ChainProfile,
  nodeType: string,
  wish: { readonly provider?: string | undefined; readonly region?: string | undefined },
  available: readonly string[],
): Placement {
  const type = Object.hasOwn(profile.node_types, nodeType) ? profile.node_types[nodeType] : undefined;
  if (type === undefined) {
    const known = Object.keys(profile.node_types);
    throw new OrreryError("node_type_not_found", `${profile.chain_id} has no node type ${nodeType}.`, {
      node_types: known,
    });
  }
  const candidates = wish.provider === undefined ? type.default_providers : [wish.provider];
  const provider = candidates.find((name) => available.includes(name) && Object.hasOwn(type.providers, name));
  const choice = provider === undefined ? undefined : type.providers[provider];
  if (provider === undefined || choice === undefined) {
    throw new OrreryError(
      "provider_unavailable",
      `None of ${candidates.join(", ")} can host a ${nodeType} node of ${profile.chain_id} here.`,
    );
  }
  const region = wish.region ?? choice.default_region;
  if (!choice.regions.includes(region)) {
    throw new OrreryError("provider_unavailable", `${provider} does not host ${profile.chain_id} in ${region}.`, {
      regions: choice.regions,
    });
  }
  return { provider, region, instanceType: choice.instance_type };
}
