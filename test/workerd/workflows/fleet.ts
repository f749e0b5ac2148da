import { env } from "cloudflare:workers";
import { uuidv7 } from "uuidv7";
import { vi } from "vitest";
import { type Database, withDatabase } from "../../../db/client.ts";
import { hostsOfNode } from "../../../db/hosts.ts";
import { findSaga, insertSaga, sagasOfNode } from "../../../db/sagas.ts";
import { nodes, subscriptions } from "../../../db/schema.ts";
import { parseConfig } from "../../../domain/config.ts";
import { agentReadyEvent, type OnceSaga, reenrolmentId, sagaId } from "../../../domain/saga/ids.ts";
import type { NodeObject } from "../../../durable-objects/node/object.ts";
import { type Boot, Cloud } from "../../../sandbox/cloud.ts";
import { type ConsumerDeps, consumerDeps } from "../../../workers/queues/deps.ts";
import { drainOutbox } from "../../../workers/queues/drain-outbox.ts";
import { startInstance } from "../../../workers/workflows/engine.ts";
import { TestAgent } from "../durable-objects/test-agent.ts";
import { TestIdentity } from "../durable-objects/test-identity.ts";
import { NODE_KEY, pushTinyChain } from "./chain.ts";

const CLOUD_ORIGIN = new URL(env.HOST_RUNNER_URL).origin;
const LOOK_AGAIN_MS = 3;

export const config = parseConfig(env);

export function query<T>(work: (db: Database) => Promise<T>): Promise<T> {
  return withDatabase(config, work);
}

/** What a test agent does with a command; the default is to do it. */
export type CommandBehaviour = (agent: TestAgent, commandId: string, type: number) => void;

const obey: CommandBehaviour = (agent, commandId) => {
  agent.acknowledge(commandId);
  agent.complete(commandId);
};

/**
 * A cloud, and an agent that boots on every host that it has: the world of a deployment, around the real Worker, the
 * real engine and the real Postgres protocol.
 */
export class Fleet implements AsyncDisposable {
  readonly cloud = new Cloud();
  readonly #scripts = new Map<string, CommandBehaviour>();
  readonly #unbooted = new Set<string>();
  readonly #rebuilt = new Map<string, { readonly generation: number; readonly identity: TestIdentity }>();
  readonly #agents = new Map<string, TestAgent>();
  readonly #answered = new Map<TestAgent, number>();
  readonly #running: Promise<void>;
  #epoch = 0;
  #open = true;

  constructor() {
    const realFetch = globalThis.fetch;
    vi.spyOn(globalThis, "fetch").mockImplementation((input, init) => {
      const request = new Request(input, init);
      return new URL(request.url).origin === CLOUD_ORIGIN ? this.cloud.handle(request) : realFetch(input, init);
    });
    this.#running = this.#run();
  }

  /** What this node's agent does with its commands, in place of obeying. */
  script(nodeId: string, behaviour: CommandBehaviour): void {
    this.#scripts.set(nodeId, behaviour);
  }

  /** This node's host comes up without an agent. */
  leaveUnbooted(nodeId: string): void {
    this.#unbooted.add(nodeId);
  }

  /** The agent that was left out comes up. */
  boot(nodeId: string): void {
    this.#unbooted.delete(nodeId);
  }

  /** A node as the API leaves it: rows for subscription and node, no object yet. */
  async orderNode(inputs = NODE_KEY): Promise<string> {
    const chainContentHash = await pushTinyChain(inputs);
    const subscriptionId = uuidv7();
    const nodeId = uuidv7();
    const now = new Date();
    const common = { tenant: "dev", chain: "tiny", nodeType: "full", provider: "local", region: "local" };
    await query(async (db) => {
      await db.insert(subscriptions).values({
        ...common,
        id: subscriptionId,
        instanceType: "process",
        status: "active",
        durationDays: 30,
        createdAt: now,
      });
      await db
        .insert(nodes)
        .values({ ...common, id: nodeId, subscriptionId, chainContentHash, createdAt: now, stateSince: now });
    });
    return nodeId;
  }

  /** Commits the saga's row, as the API does; answers its id. */
  async orderSaga(workflow: OnceSaga, nodeId: string): Promise<string> {
    const id = sagaId(workflow, nodeId);
    await query((db) => insertSaga(db, { id, tenant: "dev", workflow, nodeId, requestedBy: "key:test" }, new Date()));
    return id;
  }

  async start(workflow: OnceSaga, nodeId: string): Promise<string> {
    const id = await this.orderSaga(workflow, nodeId);
    await startInstance(env, workflow, id, { nodeId });
    return id;
  }

  /** Expects another installation and commits the saga's row, as the API does; answers the saga's id. */
  async orderReenrolment(nodeId: string, generation: number): Promise<string> {
    const workflow = "reenroll-node";
    const id = reenrolmentId(nodeId, generation);
    await query((db) => insertSaga(db, { id, tenant: "dev", workflow, nodeId, requestedBy: "key:test" }, new Date()));
    const wait = { workflow, instanceId: id, eventType: agentReadyEvent(generation) } as const;
    await stubOf(nodeId).replaceInstallation(generation, wait);
    return id;
  }

  async startReenrolment(nodeId: string, generation: number): Promise<string> {
    const id = await this.orderReenrolment(nodeId, generation);
    await startInstance(env, "reenroll-node", id, { nodeId });
    return id;
  }

  /** The disk of this node's host is rebuilt, with the token of that generation: another agent comes up on it. */
  rebuild(nodeId: string, generation: number): void {
    this.#rebuilt.set(nodeId, { generation, identity: new TestIdentity(uuidv7()) });
    for (const { host } of this.cloud.hosts(nodeId)) {
      this.#agents.get(host.providerHostId)?.socket.close(1000);
      this.#agents.delete(host.providerHostId);
    }
  }

  /** Waits until the saga's row is closed; the row is what the rest of the system sees. */
  async ended(id: string) {
    return vi.waitUntil(
      async () => {
        const row = await query((db) => findSaga(db, id));
        return row !== null && row.status !== "running" ? row : null;
      },
      { timeout: 50_000, interval: 150 },
    );
  }

  /** Provisions a node to the end. */
  async provision(): Promise<string> {
    const nodeId = await this.orderNode();
    const row = await this.ended(await this.start("provision-node", nodeId));
    if (row.status !== "succeeded") throw new Error(`not provisioned: ${row.code} ${row.message}`);
    return nodeId;
  }

  async steps(id: string, nodeId: string) {
    const sagas = await query((db) => sagasOfNode(db, nodeId));
    return sagas.find(({ saga }) => saga.id === id)?.steps ?? [];
  }

  hostRows(nodeId: string) {
    return query((db) => hostsOfNode(db, nodeId));
  }

  state(nodeId: string): Promise<string> {
    return stubOf(nodeId)
      .view()
      .then(({ state }) => state);
  }

  drain(nodeId: string): Promise<number> {
    const deps: ConsumerDeps = consumerDeps(env);
    return drainOutbox(deps, nodeId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#open = false;
    await this.#running;
    for (const agent of this.#agents.values()) agent.socket.close(1000);
    vi.restoreAllMocks();
  }

  /** The agents live in the test's own context, since a socket may not outlive the request that opened it. */
  async #run(): Promise<void> {
    while (this.#open) {
      for (const boot of this.cloud.hosts()) await this.#tend(boot);
      this.#hangUpTheDestroyed();
      await scheduler.wait(LOOK_AGAIN_MS);
    }
  }

  #hangUpTheDestroyed(): void {
    const live = new Set(this.cloud.hosts().map(({ host }) => host.providerHostId));
    for (const [hostId, agent] of this.#agents) {
      if (live.has(hostId)) continue;
      agent.socket.close(1000);
      this.#agents.delete(hostId);
    }
  }

  async #tend({ host, request }: Boot): Promise<void> {
    const agent = this.#agents.get(host.providerHostId);
    if (agent === undefined || agent.closed !== null) {
      const mayDial = !this.#unbooted.has(request.agent.nodeId) && agent?.last("goodbye") === undefined;
      if (mayDial) await this.#dial(host.providerHostId, request.agent);
      return;
    }
    const answered = this.#answered.get(agent) ?? 0;
    this.#answered.set(agent, agent.frames.length);
    const behaviour = this.#scripts.get(request.agent.nodeId) ?? obey;
    for (const { body } of agent.frames.slice(answered)) {
      if (body.case === "command") behaviour(agent, body.value.id, body.value.type);
    }
  }

  async #dial(hostId: string, { nodeId, generation }: Boot["request"]["agent"]): Promise<void> {
    try {
      this.#epoch += 1;
      const disk = this.#rebuilt.get(nodeId) ?? { generation };
      this.#agents.set(hostId, await TestAgent.knock(stubOf(nodeId), this.#epoch, disk));
    } catch {
      // The object is being evicted under the test; the next turn dials again.
    }
  }
}

export function stubOf(nodeId: string): DurableObjectStub<NodeObject> {
  return env.NODE.getByName(`dev/node/${nodeId}`);
}
