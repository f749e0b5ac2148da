import { env, exports } from "cloudflare:workers";
import { uuidv7 } from "uuidv7";
import { z } from "zod";
import { ensureUser, insertApiKey } from "../../../db/api-keys.ts";
import { type Database, withDatabase } from "../../../db/client.ts";
import { formatApiKey, hashSecret, makeApiKey } from "../../../domain/auth/api-key.ts";
import { parseConfig } from "../../../domain/config.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as JSON; an empty record when it is not JSON. */
  readonly json: Record<string, unknown>;
}

export interface Call {
  readonly key?: string;
  readonly body?: unknown;
  /** Sent as it is, in place of `body`. */
  readonly raw?: BodyInit;
  readonly headers?: Record<string, string>;
  /** Null sends none. */
  readonly idempotencyKey?: string | null;
}

/** One request to the Worker; a POST gets an Idempotency-Key unless the call says otherwise. */
export async function call(method: string, path: string, options: Call = {}): Promise<Answer> {
  const headers = new Headers();
  if (options.key !== undefined) headers.set("authorization", `Bearer ${options.key}`);
  if (options.body !== undefined || options.raw !== undefined) headers.set("content-type", "application/json");
  const idempotencyKey = options.idempotencyKey === undefined ? uuidv7() : options.idempotencyKey;
  if (method === "POST" && idempotencyKey !== null) headers.set("idempotency-key", idempotencyKey);
  for (const [name, value] of Object.entries(options.headers ?? {})) headers.set(name, value);
  const body = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  const response = await exports.default.fetch(`http://orrery.test${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: jsonOf(text) };
}

function jsonOf(text: string): Record<string, unknown> {
  try {
    return z.record(z.string(), z.unknown()).parse(JSON.parse(text));
  } catch {
    return {};
  }
}

export function database<T>(work: (db: Database) => Promise<T>): Promise<T> {
  return withDatabase(parseConfig(env), work);
}

export interface KeyOptions {
  readonly scopes: readonly string[];
  readonly userId?: string;
  readonly expiresAt?: Date;
  readonly revokedAt?: Date;
  readonly tenant?: string;
}

/** A key straight in the table, for whatever a test needs. */
export async function mintKey(options: KeyOptions): Promise<string> {
  const key = makeApiKey(uuidv7(), crypto.getRandomValues(new Uint8Array(32)));
  const tenant = options.tenant ?? env.TENANT;
  const createdAt = new Date();
  const secretHash = await hashSecret(key.secret);
  await database((db) =>
    db.transaction(async (tx) => {
      if (options.userId !== undefined) {
        await ensureUser(tx, { id: options.userId, tenant, displayName: "a customer", createdAt });
      }
      const row = {
        id: key.id,
        tenant,
        userId: options.userId ?? null,
        name: "test",
        secretHash,
        scopes: [...options.scopes],
        createdAt,
        expiresAt: options.expiresAt ?? null,
        revokedAt: options.revokedAt ?? null,
      };
      await insertApiKey(tx, row, { id: uuidv7(), actor: "test" });
    }),
  );
  return formatApiKey(key);
}

/** Ids are text in answers; a test that finds none fails here. */
export function idOf(answer: Answer): string {
  return z.string().parse(answer.json.id);
}

const FILES: Record<string, string> = {
  "profile.yaml": [
    'schema_version: "1.0"',
    "chain_id: CHAIN",
    "display_name: Test chain",
    "network_type: devnet",
    "node_types:",
    "  full:",
    "    resources: { cpu: 1, memory_gb: 1, disk_gb: 1, disk_type: ssd }",
    "    default_providers: [local]",
    "    providers:",
    "      local: { instance_type: process, default_region: local, regions: [local, other] }",
    "",
  ].join("\n"),
  "runtime.yaml": [
    'schema_version: "1.0"',
    "chain_profile_id: CHAIN",
    "process: { command: bin/run }",
    "ports: { rpc: 8545 }",
    "node_status: { kind: http, port: rpc, path: / }",
    "",
  ].join("\n"),
  "recipes/full.yaml": [
    'schema_version: "1.0"',
    "chain_profile_id: CHAIN",
    "node_type: full",
    "steps:",
    "  - { name: config, type: write_file, path: bin/run, content: hello }",
    "",
  ].join("\n"),
};

/** Valid files of a chain of that id. */
export function chainFiles(chain: string): Record<string, string> {
  return Object.fromEntries(Object.entries(FILES).map(([name, text]) => [name, text.replaceAll("CHAIN", chain)]));
}
