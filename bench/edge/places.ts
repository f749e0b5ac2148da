import { rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { choosePort } from "../../agent-bridge/host-runner/ports.ts";
import { migrate } from "../../db/migrate.ts";
import { keepBridge, type StackBridge } from "../../dev/bridge.ts";
import { type DataDir, openDataDir } from "../../dev/data-dir.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../dev/embedded-postgres.ts";
import { watchParts } from "../../dev/parts.ts";
import type { ProcessGroup } from "../../dev/process-group.ts";
import { developmentSecrets } from "../../dev/secrets.ts";
import { buildWorker, startWorker, type WorkerPlace } from "../../dev/worker.ts";
import { type Runtimes, runtimesOf } from "../processes.ts";

export const REPO_DIR = join(import.meta.dirname, "../..");
const WORKERS = "bench/edge/workers";

/** A Worker that runs for a bench, as `npm run dev` would run it: built, on disk, one front and one runtime of objects. */
export interface BenchWorker {
  readonly url: string;
  /** Of the present start. */
  readonly runtimes: Runtimes;
  /** SIGKILL to all of it. */
  kill(): Promise<void>;
  /** Starts it again on the same state and address. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** The bare object. @param directory where everything of it lives */
export async function startBare(directory: string): Promise<BenchWorker> {
  const dataDir = await openEmpty(directory);
  const port = await choosePort(new Set(), Math.random);
  const worker = { entry: `${WORKERS}/bare.ts`, config: `${WORKERS}/bare.toml` };
  return start({ repoDir: REPO_DIR, dataDir, ...worker, port, settings: {}, watch: false });
}

const nodesSchema = z.array(z.object({ nodeId: z.string(), generation: z.number(), nodeToken: z.string() }));
const countsSchema = z.record(z.string(), z.number());
const commandsSchema = z.array(z.object({ commandId: z.string(), state: z.string() }));
const meterSchema = z.record(
  z.string(),
  z.object({
    woken: z.number(),
    rowsRead: z.number(),
    rowsWritten: z.number(),
    alarmsSet: z.number(),
    databaseBytes: z.number(),
    events: countsSchema,
  }),
);

/** A node whose object waits for its agent. */
export type BenchNode = z.output<typeof nodesSchema>[number];
export type BenchCommand = z.output<typeof commandsSchema>[number];
/** By object: what came in and what was written. */
export type Meter = z.output<typeof meterSchema>;

/** The product, with its meter. What it answers of nodes it asks their objects. */
export interface Edge extends BenchWorker {
  readonly masterSecret: string;
  /** Null where nodes have no rows. */
  readonly databaseUrl: string | null;
  /** Nodes whose provisioning is over, or in `provisioning`, where nobody watches for their silence yet. */
  makeNodes(nodeIds: readonly string[], state?: "provisioning" | "syncing"): Promise<readonly BenchNode[]>;
  /** How many nodes are in each state. */
  states(nodeIds: readonly string[]): Promise<Readonly<Record<string, number>>>;
  /** One command to each node. */
  sendCommands(nodeIds: readonly string[]): Promise<readonly BenchCommand[]>;
  /** The newest command of each node. */
  commands(nodeIds: readonly string[]): Promise<readonly BenchCommand[]>;
  /** How many events of each kind nodes have told since the Worker's start; none where there is a database to read them. */
  events(): Promise<Readonly<Record<string, number>>>;
  readMeter(): Promise<Meter>;
  resetMeter(): Promise<void>;
}

export interface EdgeOptions {
  readonly directory: string;
  /** Seconds of the edge's clock in a real one. */
  readonly clockSpeed: number;
  /** `none`: objects alone are of interest, and a database would only be in the way. */
  readonly database: "none" | "embedded";
}

/** The product's Worker, and a Postgres if it shall have one. */
export async function startEdge({ directory, clockSpeed, database: kind }: EdgeOptions): Promise<Edge> {
  const dataDir = await openEmpty(directory);
  const { masterSecret, bootstrapSecret, hostRunnerToken } = developmentSecrets(dataDir.path);
  const database = kind === "none" ? null : await openDatabase(dataDir);
  const port = await choosePort(new Set(), Math.random);
  const settings = {
    DATABASE_URL: database?.databaseUrl ?? "postgres://nobody@127.0.0.1:1/none",
    DATABASE_WS_PROXY: database?.wsProxy ?? "",
    MASTER_SECRET: masterSecret,
    BOOTSTRAP_SECRET: bootstrapSecret,
    HOST_RUNNER_TOKEN: hostRunnerToken,
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    BENCH_CLOCK_SPEED: String(clockSpeed),
    BENCH_CLOCK_FROM: String(Date.now()),
    BENCH_DATABASE: kind,
  };
  const worker = await start({ repoDir: REPO_DIR, dataDir, entry: `${WORKERS}/edge.ts`, port, settings, watch: false });
  const ask = (path: string, body: unknown = {}) => answerOf(`${worker.url}/bench/${path}`, "POST", body);
  const read = (path: string) => answerOf(`${worker.url}/bench/${path}`, "GET");
  return {
    url: worker.url,
    get runtimes() {
      return worker.runtimes;
    },
    kill: worker.kill,
    start: worker.start,
    async stop() {
      await worker.stop();
      await database?.stop();
    },
    masterSecret,
    databaseUrl: database?.databaseUrl ?? null,
    makeNodes: async (nodeIds, state = "syncing") => nodesSchema.parse(await ask("nodes", { nodeIds, state })),
    states: async (nodeIds) => countsSchema.parse(await ask("states", { nodeIds })),
    sendCommands: async (nodeIds) => commandsSchema.parse(await ask("commands", { nodeIds })),
    commands: async (nodeIds) => commandsSchema.parse(await ask("command-states", { nodeIds })),
    events: async () => countsSchema.parse(await read("events")),
    readMeter: async () => meterSchema.parse(await read("meter")),
    resetMeter: async () => void (await ask("meter/reset")),
  };
}

/** A bridge for the bench alone. */
export interface BenchBridge extends StackBridge {
  stop(): Promise<void>;
}

export async function openBridge(directory: string, edgeUrl: string): Promise<BenchBridge> {
  const dataDir = await openDataDir(directory);
  const bridge = await keepBridge({ repoDir: REPO_DIR, dataDir, edgeUrl }, watchParts());
  return {
    url: bridge.url,
    httpUrl: bridge.httpUrl,
    get process() {
      return bridge.process;
    },
    kill: bridge.kill,
    start: bridge.start,
    async stop() {
      await bridge.process.stop();
      dataDir.release();
    },
  };
}

/** A program of this repository, in a group that ends with the bench. */
export function startProgram(dataDir: DataDir, name: string, args: readonly string[]): ProcessGroup {
  return dataDir.start({ name, command: process.execPath, args, cwd: REPO_DIR });
}

/** Each run starts with empty objects, buckets and database. */
async function openEmpty(directory: string): Promise<DataDir> {
  const dataDir = await openDataDir(directory);
  for (const part of ["worker", "postgres"]) rmSync(join(directory, part), { recursive: true, force: true });
  return dataDir;
}

async function openDatabase(dataDir: DataDir): Promise<EmbeddedPostgres> {
  const database = await startEmbeddedPostgres({ dataDir: join(dataDir.path, "postgres") });
  await migrate(database.databaseUrl);
  return database;
}

async function start(place: WorkerPlace): Promise<BenchWorker> {
  await buildWorker(place);
  let worker = await startWorker(place);
  return {
    url: worker.url,
    get runtimes() {
      return runtimesOf(worker.process.pid);
    },
    kill: () => worker.process.kill(),
    async start() {
      worker = await startWorker(place);
    },
    async stop() {
      await worker.process.stop();
      place.dataDir.release();
    },
  };
}

async function answerOf(url: string, method: string, body?: unknown): Promise<unknown> {
  const response = await fetch(url, {
    method,
    headers: { "content-type": "application/json" },
    body: body === undefined ? null : JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${await response.text()}`);
  return response.json();
}
