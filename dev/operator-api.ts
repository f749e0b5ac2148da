import { randomUUID } from "node:crypto";
import { z } from "zod";

/** The few answers of API v1 that the demo and the end-to-end tests read; unknown fields are left alone. */
const nodeSchema = z.object({
  id: z.string(),
  state: z.string(),
  display_state: z.string(),
  sync_status: z.string(),
  state_since: z.string(),
  endpoints: z.record(z.string(), z.string()),
});
export type ApiNode = z.output<typeof nodeSchema>;

const stepSchema = z.object({
  name: z.string(),
  status: z.enum(["running", "succeeded", "failed", "skipped"]),
  started_at: z.string(),
  ended_at: z.string().nullable(),
  detail: z.string().nullable(),
});
export type ApiSagaStep = z.output<typeof stepSchema>;

const sagaSchema = z.object({
  id: z.string(),
  workflow: z.string(),
  status: z.enum(["running", "succeeded", "failed", "superseded"]),
  code: z.string().nullable(),
  message: z.string().nullable(),
  steps: z.array(stepSchema),
});
export type ApiSaga = z.output<typeof sagaSchema>;

const eventSchema = z.object({ kind: z.string(), occurred_at: z.string(), body: z.record(z.string(), z.unknown()) });
export type ApiNodeEvent = z.output<typeof eventSchema>;

const commandSchema = z.object({ id: z.string(), type: z.string(), state: z.string(), code: z.string().nullable() });
export type ApiCommand = z.output<typeof commandSchema>;

const idSchema = z.object({ id: z.string() });
const keySchema = z.object({ key: z.string() });
const problemSchema = z.object({ code: z.string(), detail: z.string() });

function listOf<T extends z.ZodType>(item: T) {
  return z.object({ items: z.array(item), next_cursor: z.string().nullable() });
}

/** The API refused; `code` is one of the error registry's. */
class ApiRefusal extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(`${code}: ${message}`);
    this.status = status;
    this.code = code;
  }
}

const REQUEST_TIMEOUT_MS = 30_000;

/** API v1 with one key. Each call is one request; a POST carries a fresh Idempotency-Key. */
export class OperatorApi {
  readonly #baseUrl: string;
  readonly #key: string;

  constructor(baseUrl: string, key: string) {
    this.#baseUrl = baseUrl;
    this.#key = key;
  }

  createKey(name: string, scopes: readonly string[]): Promise<string> {
    return this.#send("POST", "/admin/api-keys", keySchema, { name, scopes }).then((answer) => answer.key);
  }

  async pushChain(chain: string, files: Readonly<Record<string, string>>): Promise<void> {
    await this.#send("PUT", `/chains/${chain}`, z.unknown(), { files });
  }

  createSubscription(chain: string, nodeType: string): Promise<string> {
    const body = { chain, node_type: nodeType, status: "active" };
    return this.#send("POST", "/subscriptions", idSchema, body).then((answer) => answer.id);
  }

  createNode(subscriptionId: string): Promise<string> {
    return this.#send("POST", "/nodes", idSchema, { subscription_id: subscriptionId }).then((answer) => answer.id);
  }

  node(nodeId: string): Promise<ApiNode> {
    return this.#send("GET", `/nodes/${nodeId}`, nodeSchema);
  }

  sagas(nodeId: string): Promise<readonly ApiSaga[]> {
    return this.#send("GET", `/nodes/${nodeId}/saga`, listOf(sagaSchema)).then((answer) => answer.items);
  }

  events(nodeId: string): Promise<readonly ApiNodeEvent[]> {
    return this.#send("GET", `/nodes/${nodeId}/events?limit=200`, listOf(eventSchema)).then((answer) => answer.items);
  }

  command(nodeId: string, commandId: string): Promise<ApiCommand> {
    return this.#send("GET", `/nodes/${nodeId}/commands/${commandId}`, commandSchema);
  }

  sendCommand(nodeId: string, type: string, ttlSeconds?: number): Promise<string> {
    const body = ttlSeconds === undefined ? { type } : { type, ttl_seconds: ttlSeconds };
    return this.#send("POST", `/nodes/${nodeId}/commands`, idSchema, body).then((answer) => answer.id);
  }

  async cancelCommand(nodeId: string, commandId: string): Promise<void> {
    await this.#send("POST", `/nodes/${nodeId}/commands/${commandId}/cancel`, z.unknown(), {});
  }

  async terminate(nodeId: string): Promise<void> {
    await this.#send("POST", `/nodes/${nodeId}/terminate`, z.unknown(), {});
  }

  async #send<T extends z.ZodType>(method: string, path: string, answer: T, body?: unknown): Promise<z.output<T>> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.#key}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (method === "POST") headers["idempotency-key"] = randomUUID();
    const response = await fetch(`${this.#baseUrl}/api/v1${path}`, {
      method,
      headers,
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw refusalOf(response.status, text);
    return answer.parse(JSON.parse(text));
  }
}

function refusalOf(status: number, text: string): ApiRefusal {
  try {
    const problem = problemSchema.parse(JSON.parse(text));
    return new ApiRefusal(status, problem.code, problem.detail);
  } catch {
    return new ApiRefusal(status, "internal", `answered ${status} without a problem document`);
  }
}
