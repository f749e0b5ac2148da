import { rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { choosePort } from "../../agent-bridge/host-runner/ports.ts";
import { migrate } from "../../db/migrate.ts";
import { type DataDir, openDataDir } from "../../dev/data-dir.ts";
import { startEmbeddedPostgres } from "../../dev/embedded-postgres.ts";
import type { ProcessGroup } from "../../dev/process-group.ts";
import { developmentSecrets } from "../../dev/secrets.ts";
import { buildWorker, startWorker, type WorkerPlace } from "../../dev/worker.ts";
import { type Runtimes, runtimesOf } from "../processes.ts";

export const REPO_DIR = join(import.meta.dirname, "../..");
const WORKERS = "bench/edge/workers";

/** A Worker that runs for the bench, as `npm run dev` would run it: built, on disk, one front and one runtime of objects. */
export interface BenchWorker {
  readonly url: string;
  readonly runtimes: Runtimes;
  stop(): Promise<void>;
}

/** The bare object. @param directory where everything of it lives */
export async function startBare(directory: string): Promise<BenchWorker> {
  const dataDir = await openEmpty(directory);
  const place = {
    repoDir: REPO_DIR,
    dataDir,
    entry: `${WORKERS}/bare.ts`,
    config: `${WORKERS}/bare.toml`,
    port: await choosePort(new Set(), Math.random),
    settings: {},
    watch: false,
  };
  return start(place, []);
}

const nodesSchema = z.array(z.object({ nodeId: z.string(), generation: z.number(), nodeToken: z.string() }));
const meterSchema = z.record(
  z.string(),
  z.object({
    woken: z.number(),
    rowsRead: z.number(),
    rowsWritten: z.number(),
    alarmsSet: z.number(),
    databaseBytes: z.number(),
    events: z.record(z.string(), z.number()),
  }),
);

/** A node whose object waits for its agent. */
export type BenchNode = z.output<typeof nodesSchema>[number];
/** By object: what came in and what was written. */
export type Meter = z.output<typeof meterSchema>;

/** The product, with its meter. */
export interface Edge extends BenchWorker {
  readonly masterSecret: string;
  readonly databaseUrl: string;
  makeNodes(nodeIds: readonly string[]): Promise<readonly BenchNode[]>;
  readMeter(): Promise<Meter>;
  resetMeter(): Promise<void>;
}

export interface EdgeOptions {
  readonly directory: string;
  /** Seconds of the edge's clock in a real one. */
  readonly clockSpeed: number;
}

/** The product's Worker and a Postgres for it. */
export async function startEdge({ directory, clockSpeed }: EdgeOptions): Promise<Edge> {
  const dataDir = await openEmpty(directory);
  const { masterSecret, bootstrapSecret, hostRunnerToken } = developmentSecrets(dataDir.path);
  const database = await startEmbeddedPostgres({ dataDir: join(dataDir.path, "postgres") });
  await migrate(database.databaseUrl);
  const port = await choosePort(new Set(), Math.random);
  const place = {
    repoDir: REPO_DIR,
    dataDir,
    entry: `${WORKERS}/edge.ts`,
    port,
    settings: {
      DATABASE_URL: database.databaseUrl,
      DATABASE_WS_PROXY: database.wsProxy,
      MASTER_SECRET: masterSecret,
      BOOTSTRAP_SECRET: bootstrapSecret,
      HOST_RUNNER_TOKEN: hostRunnerToken,
      PUBLIC_URL: `http://127.0.0.1:${port}`,
      BENCH_CLOCK_SPEED: String(clockSpeed),
      BENCH_CLOCK_FROM: String(Date.now()),
    },
    watch: false,
  };
  const worker = await start(place, [() => database.stop()]);
  const call = (method: string, path: string, body?: unknown) => ask(`${worker.url}/bench/${path}`, method, body);
  return {
    ...worker,
    masterSecret,
    databaseUrl: database.databaseUrl,
    makeNodes: async (nodeIds) => nodesSchema.parse(await call("POST", "nodes", { nodeIds })),
    readMeter: async () => meterSchema.parse(await call("GET", "meter")),
    resetMeter: async () => void (await call("DELETE", "meter")),
  };
}

/** A program of this repository, in a group that ends with the bench. */
export function startProgram(
  dataDir: DataDir,
  name: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): ProcessGroup {
  return dataDir.start({ name, command: process.execPath, args, cwd: REPO_DIR, env });
}

/** Each run starts with empty objects, buckets and database. */
async function openEmpty(directory: string): Promise<DataDir> {
  const dataDir = await openDataDir(directory);
  for (const part of ["worker", "postgres"]) rmSync(join(directory, part), { recursive: true, force: true });
  return dataDir;
}

async function start(place: WorkerPlace, cleanUps: readonly (() => Promise<void>)[]): Promise<BenchWorker> {
  await buildWorker(place);
  const { url, process } = await startWorker(place);
  return {
    url,
    runtimes: runtimesOf(process.pid),
    async stop() {
      await process.stop();
      for (const cleanUp of cleanUps) await cleanUp();
      place.dataDir.release();
    },
  };
}

async function ask(url: string, method: string, body: unknown): Promise<unknown> {
  const response = await fetch(url, {
    method,
    headers: { "content-type": "application/json" },
    body: body === undefined ? null : JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${text}`);
  return text === "" ? null : JSON.parse(text);
}
