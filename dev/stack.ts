import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AgentExtras } from "../agent-bridge/host-runner/bootstrap.ts";
import { readChainFiles } from "../cli/chain-files.ts";
import { migrate } from "../db/migrate.ts";
import { keepBridge, type StackBridge } from "./bridge.ts";
import { type CronDriver, runCron, startCronDriver } from "./cron-driver.ts";
import { type DataDir, openDataDir } from "./data-dir.ts";
import { type DatabaseProxy, startDatabaseProxy } from "./database-proxy.ts";
import { startEmbeddedPostgres } from "./embedded-postgres.ts";
import { endHostProcesses } from "./host-processes.ts";
import { type HostRunner, hostsDir, type RunningHostRunner, startHostRunner } from "./host-runner.ts";
import { keptPort } from "./kept-ports.ts";
import { OperatorApi } from "./operator-api.ts";
import { watchParts } from "./parts.ts";
import { developmentSecrets } from "./secrets.ts";
import { buildWorker, type RunningWorker, startWorker, type WorkerPlace } from "./worker.ts";

export interface StackOptions {
  readonly repoDir: string;
  readonly dataDir: string;
  /** Rebuild the Worker when a file changes. */
  readonly watch: boolean;
  /** The Worker's main module, from the repository's root; the product's unless a test puts a meter around it. */
  readonly entry?: string;
  /** A Postgres to use instead of the embedded one. */
  readonly databaseUrl?: string;
  /** How often the cron trigger fires; the platform's minute unless a test wants it sooner or by hand (null). */
  readonly cronEveryMs?: number | null;
  /** What every agent gets beside its own settings: how it uses the bridge, how quickly it does things. */
  readonly agents?: Partial<AgentExtras>;
  /** Stands between the Worker and the host runner or agents; tests put their interposers here. */
  readonly interpose?: Interposers;
  /** Gives up starting; what had started is stopped again, and the signal's reason is thrown. */
  readonly signal?: AbortSignal;
  /** Runs each start step; the demo shows them. */
  readonly onStep?: <T>(label: string, work: () => Promise<T>) => Promise<T>;
}

/** Addresses that the Worker and the hosts are given in place of the real ones. */
export interface Interposers {
  /** In place of the host runner's address, for the Worker's own calls. */
  hostRunnerUrl?(realUrl: string): Promise<string>;
  /** In place of the Worker's address, for agents. */
  publicUrl?(realUrl: string): Promise<string>;
  /** In place of the bridge's address, for agents; null has them connect directly. `edgeUrl` is where a bridge goes on to. */
  bridgeUrl?(realUrl: string, edgeUrl: string): Promise<string | null>;
}

export interface Stack {
  readonly url: string;
  readonly logsDir: string;
  readonly databaseUrl: string;
  readonly operatorKey: string;
  readonly api: OperatorApi;
  readonly hostRunner: HostRunner;
  readonly worker: RunningWorker;
  readonly bridge: StackBridge;
  /** Settles when a part has ended that nobody ended: the stack cannot go on, and whoever runs it should stop it. */
  readonly broken: Promise<Error>;
  /** Fires the cron trigger once and waits for it. */
  runCron(): Promise<void>;
  /** SIGKILL to the whole of the Worker's processes. */
  killWorker(): Promise<void>;
  /** Starts the Worker again on the same state, address and settings. */
  startWorker(): Promise<void>;
  /** Ends everything, hosts' processes included; data stays. */
  stop(): Promise<void>;
}

const CRON_MS = 60_000;
const ENTRY = "workers/index.ts";

/**
 * Starts a whole deployment on this machine: Postgres, host runner, Worker, cron trigger, chains pushed.
 * @throws with the step's cause; what had started is stopped again.
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const step = interruptible(options);
  const dataDir = await openDataDir(options.dataDir);
  const cleanUps: (() => Promise<void> | void)[] = [() => dataDir.release(), () => endHostProcesses(hostsDir(dataDir))];
  const stop = once(() => runAll(cleanUps.reverse()));
  try {
    return await assemble(options, dataDir, step, cleanUps, stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

async function assemble(
  options: StackOptions,
  dataDir: DataDir,
  step: Step,
  cleanUps: (() => Promise<void> | void)[],
  stop: () => Promise<void>,
): Promise<Stack> {
  const watch = watchParts();
  const secrets = developmentSecrets(dataDir.path);
  const database = await step("start Postgres", () => startDatabase(options, dataDir));
  cleanUps.push(() => database.stop());
  await step("migrate Postgres", () => migrate(database.databaseUrl));

  const runner = await step("start the host runner", () => startRunner(options, dataDir, secrets.hostRunnerToken));
  watch.add(runner.process);
  cleanUps.push(() => stopRunner(runner));

  const port = await keptPort(dataDir.path, "worker");
  const realUrl = `http://127.0.0.1:${port}`;
  const publicUrl = (await options.interpose?.publicUrl?.(realUrl)) ?? realUrl;
  const bridge = await step("start the bridge", () =>
    keepBridge({ repoDir: options.repoDir, dataDir, edgeUrl: publicUrl, signal: options.signal }, watch),
  );
  cleanUps.push(() => bridge.process.stop());

  const place = workerPlace(options, dataDir, port, {
    PUBLIC_URL: publicUrl,
    BRIDGE_URL: await bridgeUrlForAgents(options, bridge.url, publicUrl),
    DATABASE_URL: database.databaseUrl,
    DATABASE_WS_PROXY: database.wsProxy,
    MASTER_SECRET: secrets.masterSecret,
    BOOTSTRAP_SECRET: secrets.bootstrapSecret,
    HOST_RUNNER_TOKEN: secrets.hostRunnerToken,
    HOST_RUNNER_URL: (await options.interpose?.hostRunnerUrl?.(runner.client.url)) ?? runner.client.url,
    ARTIFACTS_URL: `${runner.client.url}/artifacts`,
  });
  if (!options.watch) await step("build the Worker", () => buildWorker(place));
  let worker = await step("start the Worker", () => startWorker(place));
  watch.add(worker.process);
  cleanUps.push(() => worker.process.stop());

  await step("boot the hosts that are there", () => bootHosts(runner));
  const operatorKey = await new OperatorApi(worker.url, secrets.bootstrapSecret).createKey("development operator", [
    "admin",
  ]);
  const api = new OperatorApi(worker.url, operatorKey);
  await step("push the chains", () => pushChains(api, options.repoDir));
  options.signal?.throwIfAborted();
  const cron = startCron(options, worker.url);
  cleanUps.push(
    () => cron?.stop(),
    // First of all: from here on every end is wanted.
    () => watch.close(),
  );

  return {
    url: worker.url,
    logsDir: dataDir.logsDir,
    databaseUrl: database.databaseUrl,
    operatorKey,
    api,
    hostRunner: runner.client,
    get worker() {
      return worker;
    },
    bridge,
    broken: watch.broken,
    runCron: () => runCron(worker.url),
    killWorker: () => {
      watch.remove(worker.process);
      return worker.process.kill();
    },
    async startWorker() {
      worker = await startWorker(place);
      watch.add(worker.process);
    },
    stop,
  };
}

type Step = <T>(label: string, work: () => Promise<T>) => Promise<T>;

/** Begins no step once the start has been given up. */
function interruptible({ onStep = (_label, work) => work(), signal }: StackOptions): Step {
  return async (label, work) => {
    signal?.throwIfAborted();
    return onStep(label, work);
  };
}

interface RunningDatabase {
  readonly databaseUrl: string;
  readonly wsProxy: string;
  stop(): Promise<void>;
}

async function startDatabase(options: StackOptions, dataDir: DataDir): Promise<RunningDatabase> {
  if (options.databaseUrl === undefined) return startEmbeddedPostgres({ dataDir: join(dataDir.path, "postgres") });
  const proxy: DatabaseProxy = await startDatabaseProxy({ databaseUrl: options.databaseUrl });
  return { databaseUrl: options.databaseUrl, ...proxy };
}

async function startRunner(options: StackOptions, dataDir: DataDir, token: string): Promise<RunningHostRunner> {
  const tokenFile = join(dataDir.path, "host-runner.token");
  writeFileSync(tokenFile, token, { mode: 0o600 });
  const agentSettingsFile = join(dataDir.path, "agent-settings.yaml");
  writeFileSync(agentSettingsFile, JSON.stringify(options.agents ?? {}));
  return startHostRunner({
    repoDir: options.repoDir,
    dataDir,
    port: await keptPort(dataDir.path, "host-runner"),
    tokenFile,
    agentSettingsFile,
    signal: options.signal,
  });
}

/** Hosts are powered off in good order first; of a runner that no longer answers they are killed afterwards. */
async function stopRunner(runner: RunningHostRunner): Promise<void> {
  try {
    const hosts = await runner.client.hosts();
    await Promise.all(hosts.map((host) => runner.client.powerOff(host.providerHostId)));
  } catch (error) {
    console.error(`The hosts were not powered off: ${error instanceof Error ? error.message : error}`);
  } finally {
    await runner.process.stop();
  }
}

/** Hosts of an earlier start were powered off with it, or went down with the machine; one that runs already is kept. */
async function bootHosts(runner: RunningHostRunner): Promise<void> {
  const hosts = await runner.client.hosts();
  await Promise.all(hosts.map((host) => runner.client.startAgent(host.providerHostId)));
}

function workerPlace(
  options: StackOptions,
  dataDir: DataDir,
  port: number,
  settings: Readonly<Record<string, string>>,
): WorkerPlace {
  return {
    repoDir: options.repoDir,
    dataDir,
    entry: options.entry ?? ENTRY,
    port,
    settings,
    watch: options.watch,
    signal: options.signal,
  };
}

/** Empty where agents shall connect directly. */
async function bridgeUrlForAgents(options: StackOptions, realUrl: string, edgeUrl: string): Promise<string> {
  const given = await options.interpose?.bridgeUrl?.(realUrl, edgeUrl);
  return given === undefined ? realUrl : (given ?? "");
}

async function pushChains(api: OperatorApi, repoDir: string): Promise<void> {
  const root = join(repoDir, "chains");
  for (const entry of readdirSync(root, { withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    const { chain, files } = await readChainFiles(join(root, entry.name));
    await api.pushChain(chain, files);
  }
}

function startCron(options: StackOptions, workerUrl: string): CronDriver | null {
  if (options.cronEveryMs === null) return null;
  return startCronDriver(
    () => workerUrl,
    options.cronEveryMs ?? CRON_MS,
    (error) => console.error(`The cron trigger failed: ${error instanceof Error ? error.message : error}`),
  );
}

/** Runs every clean-up though one fails, so that one stuck part leaves no other behind. @throws the first failure */
async function runAll(cleanUps: readonly (() => Promise<void> | void)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const cleanUp of cleanUps) {
    try {
      await cleanUp();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

function once(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null;
  return () => {
    running ??= work();
    return running;
  };
}
