import { stringify } from "yaml";
import { z } from "zod";
import { agentSettings } from "../../domain/node/agent-yaml.ts";

/** What a host's agent must be told at its first boot: what a cloud would pass on by cloud-init. */
export const bootstrapSchema = z.strictObject({
  nodeId: z.string().min(1),
  generation: z.number().int().positive(),
  controlUrl: z.url(),
  bridgeUrl: z.url().nullable(),
  controlKeys: z.array(z.strictObject({ keyId: z.string().min(1), publicKey: z.string().regex(/^[0-9a-f]{64}$/i) })),
  nodeToken: z.string().min(1),
});

/** Settings that every agent of this runner gets beside its own: how it uses its bridge, how quickly it does things. */
export const agentExtrasSchema = z.strictObject({
  bridge: z.record(z.string(), z.unknown()).default({}),
  timing: z.record(z.string(), z.unknown()).default({}),
  log_level: z.string().optional(),
});
export type AgentExtras = z.output<typeof agentExtrasSchema>;

/** The agent's configuration file on a host; its files lie beside it. */
export function hostAgentYaml(
  agent: z.output<typeof bootstrapSchema>,
  ports: Readonly<Record<string, number>>,
  { bridge, ...extras }: AgentExtras,
): string {
  const settings = agentSettings(agent);
  return stringify({
    ...extras,
    ...settings,
    ...(settings.bridge === undefined ? {} : { bridge: { ...bridge, ...settings.bridge } }),
    runtime: "process",
    ports,
  });
}
