import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parseArgs } from "node:util";
import { parse as parseYaml } from "yaml";
import { z } from "zod";
import { parseSettings } from "../domain/config.ts";
import { DEFAULTS } from "../domain/defaults.ts";
import { OrreryError } from "../domain/errors.ts";
import { controlKeySchema } from "./state/trust.ts";

const milliseconds = z.int().min(1).max(3_600_000);
/** As it stands in an address. A session's first message has room for the names that DNS has, and for no longer ones. */
const hostName = z
  .string()
  .max(253)
  .regex(
    /^([A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])$/,
    "must be a host name, an IPv4 address, or an IPv6 address in brackets",
  );
const portName = z.string().regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, "must be the name of a port");

const settingsSchema = z.strictObject({
  /** The control plane's base URL; http(s) becomes ws(s) for the session. */
  control_url: z.url({ protocol: /^https?$/, error: "must be an http:// or https:// URL" }),
  /** The way that is tried first; without one the agent connects directly. */
  bridge: z
    .strictObject({
      url: z.url({ protocol: /^grpcs?$/, error: "must be a grpc:// or grpcs:// URL" }),
      /** Unary calls are for networks that break streams. */
      mode: z.enum(["stream", "unary"]).default("stream"),
      /** For grpcs: who may have signed the bridge's certificate; absent means the system's authorities. */
      ca_file: z.string().min(1).optional(),
      /** For grpcs with mutual TLS: the agent's certificate and its key. */
      cert_file: z.string().min(1).optional(),
      key_file: z.string().min(1).optional(),
    })
    .refine(({ cert_file, key_file }) => (cert_file === undefined) === (key_file === undefined), {
      error: "cert_file and key_file go together",
    })
    .optional(),
  /** The control plane's keys that are believed at first; its sessions tell of later ones. */
  control_keys: z.array(controlKeySchema).max(8).default([]),
  node_id: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9-]{0,63}$/, "must be a node's id"),
  generation: z.coerce.number().pipe(z.int().min(1)),
  /** Holds the node token and nothing else; read again before every connection. */
  token_file: z.string().min(1),
  /** What the agent remembers: installation, epoch, commands, the chain node's pid and log. */
  state_dir: z.string().min(1),
  /** All that chain files may touch. */
  data_dir: z.string().min(1),
  runtime: z.enum(["process", "systemd"]).default("process"),
  /** Port numbers of this host by name; what is absent is the chain's own. */
  ports: z.record(portName, z.coerce.number().pipe(z.int().min(1).max(65_535))).default({}),
  /** The host name in the addresses that users are told. */
  advertise_host: hostName.default("127.0.0.1"),
  log_level: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
  systemd: z
    .strictObject({
      unit_dir: z.string().default("/etc/systemd/system"),
      /** The account that the chain node runs as. */
      user: z
        .string()
        .regex(/^[a-z_][a-z0-9_-]{0,31}$/, "must be the name of a user")
        .optional(),
    })
    .prefault({}),
  timing: z
    .strictObject({
      reconnect_max_ms: milliseconds.default(DEFAULTS.agent.reconnectMaxMs),
      /** On the direct way, the bridge is tried again after this long. */
      return_ms: milliseconds.default(DEFAULTS.agent.returnMs),
      probe_ms: milliseconds.default(DEFAULTS.agent.probeMs),
      stall_check_ms: milliseconds.default(DEFAULTS.command.agentStallCheckMs),
    })
    .prefault({}),
});

export type AgentSettings = z.output<typeof settingsSchema>;
export type BridgeSettings = NonNullable<AgentSettings["bridge"]>;

const FLAGS = {
  config: { type: "string" },
  "control-url": { type: "string" },
  "node-id": { type: "string" },
  generation: { type: "string" },
  "token-file": { type: "string" },
  "state-dir": { type: "string" },
  "data-dir": { type: "string" },
  runtime: { type: "string" },
  port: { type: "string", multiple: true },
  "advertise-host": { type: "string" },
  "log-level": { type: "string" },
  help: { type: "boolean" },
} as const;

export const USAGE = `Usage: node ops-agent/main.ts --config agent.yaml [flags]

Flags override the file: --control-url URL, --node-id ID, --generation N, --token-file FILE, --state-dir DIR,
--data-dir DIR, --runtime process|systemd, --port NAME=NUMBER (may be repeated), --advertise-host HOST, --log-level LEVEL.

Exit codes: 0 stopped by a signal, 1 unexpected failure, 2 configuration not valid,
3 another agent runs on the same state directory, 4 the control plane refused this installation for good (do not restart).
`;

/**
 * The settings from the command line and the file that --config names; relative paths in the file are relative to the file.
 * Null when help was asked for.
 * @throws configuration_invalid
 */
export function loadSettings(argv: readonly string[]): AgentSettings | null {
  const flags = parseFlags(argv);
  if (flags.help === true) return null;
  const fromFile = flags.config === undefined ? {} : readConfig(flags.config);
  const { ports: filePorts, ...file } = fromFile;
  const raw = { ...file, ...fromFlags(flags), ports: mergedPorts(filePorts, flags.port ?? []) };
  const settings = parseSettings(settingsSchema, "The agent's configuration", raw);
  const base = flags.config === undefined ? process.cwd() : dirname(resolve(flags.config));
  const paths = {
    token_file: resolve(base, settings.token_file),
    state_dir: resolve(base, settings.state_dir),
    data_dir: resolve(base, settings.data_dir),
  };
  const bridge = settings.bridge === undefined ? {} : { bridge: withPaths(settings.bridge, base) };
  for (const name of ["state_dir", "token_file"] as const) {
    // Chain files may write anywhere in the data directory.
    if (!`${paths[name]}/`.startsWith(`${paths.data_dir}/`)) continue;
    throw new OrreryError("configuration_invalid", `${name} must not be inside data_dir (${paths.data_dir}).`);
  }
  return { ...settings, ...paths, ...bridge };
}

function withPaths(bridge: BridgeSettings, base: string): BridgeSettings {
  const files = (["ca_file", "cert_file", "key_file"] as const).flatMap((name) => {
    const file = bridge[name];
    return file === undefined ? [] : [[name, resolve(base, file)] as const];
  });
  return { ...bridge, ...Object.fromEntries(files) };
}

function parseFlags(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: FLAGS, strict: true }).values;
  } catch (error) {
    throw new OrreryError("configuration_invalid", error instanceof Error ? error.message : String(error));
  }
}

function readConfig(file: string): Record<string, unknown> {
  try {
    return z.record(z.string(), z.unknown()).parse(parseYaml(readFileSync(file, "utf8")) ?? {});
  } catch (error) {
    const reason = error instanceof z.ZodError ? "must be a YAML mapping" : String(error);
    throw new OrreryError("configuration_invalid", `${file}: ${reason}`, {}, { cause: error });
  }
}

function fromFlags(flags: ReturnType<typeof parseFlags>): Record<string, string> {
  const given: Record<string, string> = {};
  const cwd = process.cwd();
  for (const [name, value] of Object.entries(flags)) {
    if (name === "config" || name === "port" || typeof value !== "string") continue;
    const isPath = name.endsWith("-file") || name.endsWith("-dir");
    given[name.replaceAll("-", "_")] = isPath ? resolve(cwd, value) : value;
  }
  return given;
}

function mergedPorts(fromFile: unknown, flags: readonly string[]): unknown {
  if (flags.length === 0) return fromFile;
  const pairs = flags.map((flag) => {
    const [name = "", number = ""] = flag.split("=", 2);
    return [name, number] as const;
  });
  return { ...(typeof fromFile === "object" ? fromFile : {}), ...Object.fromEntries(pairs) };
}
