import { z } from "zod";
import {
  commandSchema,
  createdApiKeySchema,
  eventSchema,
  listOf,
  type NodeAnswer,
  nodeSchema,
  type Saga,
  sagaSchema,
} from "../cli/answers.ts";
import { ApiClient } from "../cli/api.ts";

const idSchema = z.looseObject({ id: z.string() });
const anything = z.unknown();

type CommandAnswer = z.output<typeof commandSchema>;
type EventAnswer = z.output<typeof eventSchema>;

/** What the demo and the end-to-end tests ask of a deployment, over the command line's own client. */
export class OperatorApi {
  readonly #client: ApiClient;

  constructor(baseUrl: string, key: string) {
    this.#client = new ApiClient(baseUrl, key);
  }

  async createKey(name: string, scopes: readonly string[]): Promise<string> {
    const { key } = await this.#client.post("/admin/api-keys", createdApiKeySchema, { name, scopes });
    if (key === null) throw new Error("The key was made by an earlier request and is not shown again.");
    return key;
  }

  async pushChain(chain: string, files: Readonly<Record<string, string>>): Promise<void> {
    await this.#client.put(`/chains/${chain}`, anything, { files });
  }

  async createSubscription(chain: string, nodeType: string): Promise<string> {
    const body = { chain, node_type: nodeType, status: "active" };
    return (await this.#client.post("/subscriptions", idSchema, body)).id;
  }

  async createNode(subscriptionId: string): Promise<string> {
    return (await this.#client.post("/nodes", idSchema, { subscription_id: subscriptionId })).id;
  }

  node(nodeId: string): Promise<NodeAnswer> {
    return this.#client.get(`/nodes/${nodeId}`, nodeSchema);
  }

  async sagas(nodeId: string): Promise<readonly Saga[]> {
    return (await this.#client.get(`/nodes/${nodeId}/saga`, listOf(sagaSchema))).items;
  }

  async events(nodeId: string): Promise<readonly EventAnswer[]> {
    return (await this.#client.get(`/nodes/${nodeId}/events`, listOf(eventSchema), { limit: 200 })).items;
  }

  command(nodeId: string, commandId: string): Promise<CommandAnswer> {
    return this.#client.get(`/nodes/${nodeId}/commands/${commandId}`, commandSchema);
  }

  async sendCommand(nodeId: string, type: string, ttlSeconds?: number): Promise<string> {
    const body = ttlSeconds === undefined ? { type } : { type, ttl_seconds: ttlSeconds };
    return (await this.#client.post(`/nodes/${nodeId}/commands`, idSchema, body)).id;
  }

  async cancelCommand(nodeId: string, commandId: string): Promise<void> {
    await this.#client.post(`/nodes/${nodeId}/commands/${commandId}/cancel`, anything, {});
  }

  async terminate(nodeId: string): Promise<void> {
    await this.#client.post(`/nodes/${nodeId}/terminate`, anything, {});
  }
}
