import type { Config } from "../../domain/config.ts";
import { OrreryError } from "../../domain/errors.ts";
import { LocalProvider } from "./local.ts";
import type { InfrastructureProvider } from "./provider.ts";

type ProviderSettings = Pick<Config, "HOST_RUNNER_URL" | "HOST_RUNNER_TOKEN">;

/** How each provider is made from the deployment's settings; null when the deployment has not set it up. */
const PROVIDERS: Readonly<Record<string, (settings: ProviderSettings) => InfrastructureProvider | null>> = {
  local: ({ HOST_RUNNER_URL: url, HOST_RUNNER_TOKEN: token }) =>
    url === undefined || token === undefined ? null : new LocalProvider({ url, token }),
};

/**
 * The provider of that name.
 * @throws provider_unavailable when there is none or this deployment has no settings for it
 */
export function providerByName(name: string, settings: ProviderSettings): InfrastructureProvider {
  const make = Object.hasOwn(PROVIDERS, name) ? PROVIDERS[name] : undefined;
  const provider = make?.(settings) ?? null;
  if (provider === null) {
    throw new OrreryError("provider_unavailable", `This deployment has no provider ${name}.`, { provider: name });
  }
  return provider;
}

/** Every provider that this deployment has set up. */
export function configuredProviders(settings: ProviderSettings): readonly InfrastructureProvider[] {
  return Object.values(PROVIDERS)
    .map((make) => make(settings))
    .filter((provider) => provider !== null);
}
