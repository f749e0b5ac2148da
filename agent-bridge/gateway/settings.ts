import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { z } from "zod";
import { parseSettings } from "../../domain/config.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";

const address = z.string().regex(/^.+:[0-9]{1,5}$/, "must be host:port");
const path = z.string().min(1).optional();
const count = (ofDefault: number) => z.coerce.number().pipe(z.int().min(1)).default(ofDefault);

const settingsSchema = z
  .object({
    /** The deployment that agents belong to. */
    EDGE_URL: z
      .url({ protocol: /^https?$/, error: "must be an http:// or https:// URL" })
      .regex(/^[^@?#]*$/, "must be without a user, a query and a fragment"),
    /** Where agents connect. */
    LISTEN: address.default("0.0.0.0:9090"),
    /** Where /healthz, /readyz and /metrics are. */
    HTTP_LISTEN: address.default("127.0.0.1:9091"),
    TLS_CERT_FILE: path,
    TLS_KEY_FILE: path,
    /** With it only agents whose certificate it has signed are served. */
    TLS_CLIENT_CA_FILE: path,
    /** Sessions at once. */
    SESSIONS_MAX: count(DEFAULTS.bridge.sessionsMax),
    /** Connections at once, those without a session included. */
    CONNECTIONS_MAX: count(DEFAULTS.bridge.connectionsMax),
    DRAIN_MS: count(DEFAULTS.bridge.drainMs),
    LOG_LEVEL: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
  })
  .superRefine(({ TLS_CERT_FILE, TLS_KEY_FILE, TLS_CLIENT_CA_FILE }, context) => {
    const isTls = TLS_CERT_FILE !== undefined && TLS_KEY_FILE !== undefined;
    if (isTls || (TLS_CERT_FILE ?? TLS_KEY_FILE ?? TLS_CLIENT_CA_FILE) === undefined) return;
    context.addIssue({ code: "custom", path: ["TLS_CERT_FILE"], message: "needs TLS_KEY_FILE beside it, and no less" });
  });

export interface BridgeSettings {
  readonly edgeUrl: string;
  readonly listen: ListenAddress;
  readonly httpListen: ListenAddress;
  readonly tls: BridgeTls | null;
  readonly sessionsMax: number;
  readonly connectionsMax: number;
  readonly drainMs: number;
  readonly limits: BridgeLimits;
  readonly logLevel: string;
}

/** What no operator needs to set: how long each thing may take, and how much may be held for a slow side. */
export type BridgeLimits = Readonly<
  Record<
    | "streamsPerConnection"
    | "connectionIdleMs"
    | "awaitedCalls"
    | "enrolments"
    | "keepaliveMs"
    | "bufferBytes"
    | "openMs"
    | "exchangeIdleMs"
    | "exchangeWaitMs",
    number
  >
>;

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

export interface BridgeTls {
  readonly certificate: Buffer;
  readonly key: Buffer;
  readonly clientCa: Buffer | null;
}

/**
 * The bridge's settings from its environment; an empty variable is one that is not set.
 * @throws configuration_invalid
 */
export function readSettings(environment: Readonly<Record<string, string | undefined>>): BridgeSettings {
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ""));
  const settings = parseSettings(settingsSchema, "The bridge's environment", given);
  return {
    edgeUrl: settings.EDGE_URL.replace(/\/+$/, ""),
    listen: listenAddress("LISTEN", settings.LISTEN),
    httpListen: listenAddress("HTTP_LISTEN", settings.HTTP_LISTEN),
    tls: readTls(settings.TLS_CERT_FILE, settings.TLS_KEY_FILE, settings.TLS_CLIENT_CA_FILE),
    sessionsMax: settings.SESSIONS_MAX,
    connectionsMax: settings.CONNECTIONS_MAX,
    drainMs: settings.DRAIN_MS,
    limits: DEFAULTS.bridge,
    logLevel: settings.LOG_LEVEL,
  };
}

function listenAddress(name: string, text: string): ListenAddress {
  const separator = text.lastIndexOf(":");
  const port = Number(text.slice(separator + 1));
  if (port > 65_535) throw new OrreryError("configuration_invalid", `${name}: ${port} is not a port.`);
  return { host: text.slice(0, separator).replace(/^\[(.*)\]$/, "$1"), port };
}

function readTls(certificate?: string, key?: string, clientCa?: string): BridgeTls | null {
  if (certificate === undefined || key === undefined) return null;
  const tls = {
    certificate: readFile("TLS_CERT_FILE", certificate),
    key: readFile("TLS_KEY_FILE", key),
    clientCa: clientCa === undefined ? null : readFile("TLS_CLIENT_CA_FILE", clientCa),
  };
  requirePair(tls);
  return tls;
}

/** A key of another certificate shall stop the start, not each agent. */
function requirePair({ certificate, key, clientCa }: BridgeTls): void {
  try {
    createSecureContext({ cert: certificate, key, ...(clientCa === null ? {} : { ca: clientCa }) });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `TLS_CERT_FILE, TLS_KEY_FILE and TLS_CLIENT_CA_FILE do not serve together: ${reason}`;
    throw new OrreryError("configuration_invalid", message, {}, { cause });
  }
}

function readFile(name: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new OrreryError("configuration_invalid", `${name}: ${path} cannot be read.`, {}, { cause });
  }
}
