import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { uuidv7 } from "uuidv7";
import { z } from "zod";
import { ensureUser, insertApiKey } from "../../../db/api-keys.ts";
import { type Database, withDatabase } from "../../../db/client.ts";
import { formatApiKey, hashSecret, makeApiKey } from "../../../domain/auth/api-key.ts";
import { parseConfig } from "../../../domain/config.ts";
import { createApp } from "../../../workers/api/app.ts";

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
  return toAnswer(await exports.default.fetch(requestOf(method, path, options)));
}

/** The same, with some bindings replaced by the test's own. */
export async function callWith(
  bindings: Readonly<Record<string, unknown>>,
  method: string,
  path: string,
  options: Call = {},
): Promise<Answer> {
  const context = createExecutionContext();
  const response = await app.fetch(requestOf(method, path, options), { ...env, ...bindings }, context);
  await waitOnExecutionContext(context);
  return toAnswer(response);
}

const app = createApp();

function requestOf(method: string, path: string, options: Call): Request {
  const headers = new Headers();
  if (options.key !== undefined) headers.set("authorization", `Bearer ${options.key}`);
  if (options.body !== undefined || options.raw !== undefined) headers.set("content-type", "application/json");
  const idempotencyKey = options.idempotencyKey === undefined ? uuidv7() : options.idempotencyKey;
  if (method === "POST" && idempotencyKey !== null) headers.set("idempotency-key", idempotencyKey);
  for (const [name, value] of Object.entries(options.headers ?? {})) headers.set(name, value);
  const body = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  return new Request(`http://orrery.test${path}`, { method, headers, ...(body === undefined ? {} : { body }) });
}

async function toAnswer(response: Response): Promise<Answer> {
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

/** Stands where a workflow's binding is, so that a test of the API sees what it asks of the engine and starts nothing. */
class RecordedEngine {
  readonly created: { readonly id: string; readonly params: unknown }[] = [];

  async create(instance: { readonly id: string; readonly params: unknown }): Promise<{ readonly id: string }> {
    this.created.push(instance);
    return { id: instance.id };
  }
}

/** The bindings of the sagas, recorded. */
export function recordedSagas() {
  const provision = new RecordedEngine();
  const terminate = new RecordedEngine();
  const reenroll = new RecordedEngine();
  const bindings = { PROVISION_NODE: provision, TERMINATE_NODE: terminate, REENROLL_NODE: reenroll };
  return { provision, terminate, reenroll, bindings };
}

/** A pushed chain and an active subscription to it; answers the subscription's id. */
export async function activeSubscription(admin: string, chain: string): Promise<string> {
  const pushed = await call("PUT", `/api/v1/chains/${chain}`, { key: admin, body: { files: chainFiles(chain) } });
  if (pushed.status !== 200) throw new Error(pushed.text);
  const body = { chain, node_type: "full", status: "active" };
  return idOf(await call("POST", "/api/v1/subscriptions", { key: admin, body }));
}
