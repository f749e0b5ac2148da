import { z } from "zod";
import { OrreryError } from "./errors.ts";

const secret = z.string().min(32, "must be at least 32 characters");
const optional = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (value === "" ? undefined : value), schema.optional());

/** The deployment's settings: variables of wrangler.toml and secrets. */
const configSchema = z.object({
  TENANT: z.string().regex(/^[a-z0-9][a-z0-9-]{0,39}$/, "must be 1 to 40 characters of a-z, 0-9 and -"),
  JURISDICTION: z.enum(["", "eu"]).transform((value) => (value === "" ? null : value)),
  /** postgres://… of Neon or any Postgres. */
  DATABASE_URL: z.string().regex(/^postgres(ql)?:\/\//, "must be a postgres:// URL"),
  /** host:port/path of a WebSocket-to-TCP proxy; empty when the database speaks Neon's protocol itself. */
  DATABASE_WS_PROXY: optional(z.string()),
  /** Node tokens and keys are derived from it. */
  MASTER_SECRET: secret,
  /** Mints the first operator key, once. */
  BOOTSTRAP_SECRET: optional(secret),
  /** The address at which agents and people reach this deployment. */
  PUBLIC_URL: z.url(),
  /** Where agents find the bridge (grpc:// or grpcs://); without it they connect directly. */
  BRIDGE_URL: optional(z.url({ protocol: /^grpcs?$/, error: "must be a grpc:// or grpcs:// URL" })),
  /** Raised to rotate the key that commands are signed with; the one before stays good until the next rotation. */
  CONTROL_KEY_VERSION: z.preprocess(
    (value) => (value === "" || value === undefined ? 1 : Number(value)),
    z.int("must be a whole number, from 1").min(1),
  ),
  /** Where agents download artifacts that the profiles name relative to it. */
  ARTIFACTS_URL: optional(z.url()),
  /** Provider `local` (development only). */
  HOST_RUNNER_URL: optional(z.url()),
  HOST_RUNNER_TOKEN: optional(secret),
  /** OTLP/HTTP endpoint for traces; no traces without it. */
  OTEL_EXPORTER_OTLP_ENDPOINT: optional(z.url()),
});

export type Config = z.output<typeof configSchema>;

/**
 * Reads settings with a schema; what is missing or wrong is named, one line each.
 * @throws configuration_invalid
 */
export function parseSettings<T extends z.ZodType>(schema: T, source: string, raw: unknown): z.output<T> {
  const result = schema.safeParse(raw);
  if (result.success) return result.data;
  const issues = result.error.issues.map((issue) => `${issue.path.join(".") || "(root)"}: ${issue.message}`);
  throw new OrreryError("configuration_invalid", `${source} is not valid:\n  ${issues.join("\n  ")}`, { issues });
}

/** The Worker's and the objects' settings from their `env`. */
export function parseConfig(env: unknown): Config {
  return parseSettings(configSchema, "The deployment's configuration", env);
}
