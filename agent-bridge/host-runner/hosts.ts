import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { z } from "zod";
import { type AgentExtras, bootstrapSchema, hostAgentYaml } from "./bootstrap.ts";
import { RunnerError } from "./errors.ts";
import { Machine } from "./machine.ts";
import { choosePort } from "./ports.ts";
import { type HostRecord, HostRecords, writeDurably } from "./records.ts";

export const createHostSchema = z.strictObject({
  tag: z.string().regex(/^[a-zA-Z0-9][a-zA-Z0-9-]{0,127}$/, "must be 1 to 128 letters, digits and -"),
  region: z.string().min(1),
  instanceType: z.string().min(1),
  agent: bootstrapSchema,
});
export type CreateHostRequest = z.output<typeof createHostSchema>;

/** A host as the runner answers it: the shape that the `infrastructure` interface names. */
export interface HostAnswer {
  readonly providerHostId: string;
  readonly tag: string;
  readonly address: string;
  readonly status: "running" | "off";
  readonly createdAt: number;
}

/** A signal that `agent/kill` accepts. */
export const agentSignals = ["SIGTERM", "SIGKILL", "SIGINT", "SIGSTOP", "SIGCONT"] as const;

export interface HostsOptions {
  readonly dataDir: string;
  readonly agentEntry: string;
  readonly agentExtras: AgentExtras;
}

/**
 * The hosts of this machine, each a directory with a real ops-agent in a process group of its own. All that is known is
 * on the disk, so that a runner which was killed knows its hosts again. Work on one host is done one piece at a time.
 */
export class Hosts {
  readonly #records: HostRecords;
  readonly #agentEntry: string;
  readonly #agentExtras: AgentExtras;
  readonly #hosts = new Map<string, HostRecord>();
  readonly #busy = new Map<string, Promise<unknown>>();
  readonly #ports = new Set<number>();

  constructor(options: HostsOptions) {
    // /proc shows absolute paths, so that is what processes are found by.
    this.#records = new HostRecords(resolve(options.dataDir));
    this.#agentEntry = resolve(options.agentEntry);
    this.#agentExtras = options.agentExtras;
  }

  /** Reads the disk; removes what a killed create left half done and boots what a killed create had not booted yet. */
  async open(): Promise<void> {
    const { records, orphans } = await this.#records.load();
    for (const id of orphans) await this.#wipe(id);
    for (const record of records) {
      this.#hosts.set(record.providerHostId, record);
      for (const port of Object.values(record.ports)) this.#ports.add(port);
    }
    for (const { providerHostId, booted, power } of records) {
      if (!booted && power === "on") await this.#exclusive(providerHostId, () => this.#boot(providerHostId));
    }
  }

  list(tag: string | null): readonly HostAnswer[] {
    return [...this.#hosts.values()].filter((record) => tag === null || record.tag === tag).map(toAnswer);
  }

  /** @throws tag_in_use when a live host carries the tag. */
  async create(request: CreateHostRequest, now: number): Promise<HostAnswer> {
    if (this.list(request.tag).length > 0) {
      throw new RunnerError("tag_in_use", `A host with the tag ${request.tag} exists.`);
    }
    const record: HostRecord = {
      providerHostId: `local-${randomUUID()}`,
      tag: request.tag,
      region: request.region,
      instanceType: request.instanceType,
      createdAt: now,
      power: "on",
      booted: false,
      ports: {},
    };
    // The tag is taken before the first await, so that of two creates at once one is refused.
    this.#hosts.set(record.providerHostId, record);
    try {
      await this.#exclusive(record.providerHostId, () => this.#build(record, request));
    } catch (error) {
      await this.#exclusive(record.providerHostId, () => this.#wipe(record.providerHostId));
      throw error;
    }
    return toAnswer(record);
  }

  async #build(record: HostRecord, request: CreateHostRequest): Promise<void> {
    const directory = this.#records.directory(record.providerHostId);
    const port = await choosePort(this.#ports, Math.random);
    this.#ports.add(port);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await writeDurably(join(directory, "node-token"), request.agent.nodeToken, 0o600);
    const config = hostAgentYaml(request.agent, { rpc: port }, this.#agentExtras);
    await writeDurably(join(directory, "agent.yaml"), config, 0o600);
    await this.#save({ ...record, ports: { rpc: port } });
    await this.#boot(record.providerHostId);
  }

  async #boot(providerHostId: string): Promise<void> {
    await this.#machine(providerHostId).startAgent();
    await this.#save({ ...this.#get(providerHostId), booted: true, power: "on" });
  }

  /** Ends all that runs on the host and forgets it; a host that is gone already is a success. */
  async destroy(providerHostId: string): Promise<void> {
    await this.#exclusive(providerHostId, async () => {
      if (this.#hosts.has(providerHostId)) await this.#wipe(providerHostId);
    });
  }

  async #wipe(providerHostId: string): Promise<void> {
    await this.#machine(providerHostId).kill();
    await this.#records.remove(providerHostId);
    const record = this.#hosts.get(providerHostId);
    for (const port of Object.values(record?.ports ?? {})) this.#ports.delete(port);
    this.#hosts.delete(providerHostId);
  }

  /** Ends all that runs on the host and keeps its directory. */
  async powerOff(providerHostId: string): Promise<HostAnswer> {
    return this.#exclusive(providerHostId, async () => {
      const record: HostRecord = { ...this.#get(providerHostId), power: "off" };
      await this.#machine(providerHostId).powerOff();
      await this.#save(record);
      return toAnswer(record);
    });
  }

  /** Starts the agent unless it runs; a host that was off is on again. */
  async startAgent(providerHostId: string): Promise<void> {
    await this.#exclusive(providerHostId, async () => {
      this.#get(providerHostId);
      await this.#boot(providerHostId);
    });
  }

  /** Signals the agent and nothing else; answers the pid it had, or null when none ran. */
  async killAgent(providerHostId: string, signal: (typeof agentSignals)[number]): Promise<number | null> {
    return this.#exclusive(providerHostId, async () => {
      this.#get(providerHostId);
      return this.#machine(providerHostId).signalAgent(signal);
    });
  }

  async processes(providerHostId: string) {
    this.#get(providerHostId);
    const found = await this.#machine(providerHostId).processes();
    const agent = found.find((entry) => entry.isAgent);
    return {
      agent: { pid: agent?.pid ?? null, alive: agent !== undefined },
      chain: found.filter((entry) => !entry.isAgent).map(({ pid }) => ({ pid, alive: true })),
    };
  }

  #machine(providerHostId: string): Machine {
    return new Machine(this.#records.directory(providerHostId), this.#agentEntry);
  }

  #get(providerHostId: string): HostRecord {
    const record = this.#hosts.get(providerHostId);
    if (record === undefined) throw new RunnerError("not_found", `There is no host ${providerHostId}.`);
    return record;
  }

  async #save(record: HostRecord): Promise<void> {
    await this.#records.write(record);
    this.#hosts.set(record.providerHostId, record);
  }

  /** Runs one piece of work on a host after those that were asked for before it. */
  async #exclusive<T>(providerHostId: string, work: () => Promise<T>): Promise<T> {
    const before = this.#busy.get(providerHostId) ?? Promise.resolve();
    const mine = before.then(work, work);
    const settled = mine.then(
      () => undefined,
      () => undefined,
    );
    this.#busy.set(providerHostId, settled);
    try {
      return await mine;
    } finally {
      if (this.#busy.get(providerHostId) === settled) this.#busy.delete(providerHostId);
    }
  }
}

function toAnswer(record: HostRecord): HostAnswer {
  return {
    providerHostId: record.providerHostId,
    tag: record.tag,
    address: "127.0.0.1",
    status: record.power === "on" ? "running" : "off",
    createdAt: record.createdAt,
  };
}
