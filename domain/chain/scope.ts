import { OrreryError } from "../errors.ts";
import type { ChainProfile } from "./profile.ts";
import type { ChainRuntime } from "./runtime.ts";
import { renderTemplate, type TemplateScope } from "./template.ts";

/** Platforms that binaries may declare checksums for. */
export type Platform = "linux-x64" | "linux-arm64";

/** Values that the control plane sends along with CONFIGURE, so that profiles need not declare them. */
export const PROVIDED_VALUES = ["artifacts_url"] as const;

/** What only the host knows. */
export interface HostFacts {
  readonly platform: Platform;
  /** The node's data directory, absolute. */
  readonly dataDir: string;
  /** Port numbers by name; what is absent is the runtime file's own. */
  readonly ports: Readonly<Record<string, number>>;
}

/**
 * Everything that the templates of a node may name:
 * `.Values .Ports .Paths.data .Profile .Node.type .Platform .SyncData .Binaries.<name>.{version,url,checksum}`.
 * @throws template_unresolved when a binary's or sync data's own template names something unknown,
 * or a binary has no checksum for the platform
 */
export function templateScope(
  profile: ChainProfile,
  runtime: ChainRuntime,
  nodeType: string,
  values: Readonly<Record<string, string>>,
  host: HostFacts,
): TemplateScope {
  const base: TemplateScope = {
    Values: { ...profile.values, ...values },
    Ports: { ...runtime.ports, ...host.ports },
    Paths: { data: host.dataDir },
    Profile: { chain_id: profile.chain_id, display_name: profile.display_name, network_type: profile.network_type },
    Node: { type: nodeType },
    Platform: host.platform,
  };
  const syncData = profile.node_types[nodeType]?.sync_data ?? {};
  const SyncData = mapValues(syncData, (text) => renderTemplate(text, base));
  const Binaries = mapValues(profile.binaries, (binary, name) => {
    const checksum = binary.checksums[host.platform];
    if (checksum === undefined) {
      throw new OrreryError("template_unresolved", `The binary ${name} has no checksum for ${host.platform}.`);
    }
    const url = renderTemplate(binary.url_template, { ...base, SyncData, Version: binary.version });
    return { version: binary.version, url, checksum };
  });
  return { ...base, SyncData, Binaries };
}

function mapValues<T, R>(record: Readonly<Record<string, T>>, map: (value: T, key: string) => R): Record<string, R> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value, key)]));
}
