import { copyFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { choosePort } from "../agent-bridge/host-runner/ports.ts";
import type { DataDir } from "./data-dir.ts";
import type { ProcessGroup } from "./process-group.ts";
import { answerOf, until } from "./ready.ts";

const READY_MS = 60_000;

/** Where one Worker runs and what it runs with; the same again after a restart, so that agents find it. */
export interface WorkerPlace {
  readonly repoDir: string;
  readonly dataDir: DataDir;
  /** The Worker's main module, from the repository's root. */
  readonly entry: string;
  /** The Worker's configuration, from the repository's root; the product's unless a bench compares it with another Worker. */
  readonly config?: string;
  readonly port: number;
  /** Variables and secrets by name (domain/config.ts). */
  readonly settings: Readonly<Record<string, string>>;
  /** Rebuild and reload when a source file changes. Off for demos and tests, which want one fixed build. */
  readonly watch: boolean;
  /** Ends the building and the waiting. */
  readonly signal?: AbortSignal | undefined;
}

export interface RunningWorker {
  readonly url: string;
  readonly process: ProcessGroup;
}

/** Builds the Worker once into the data directory, as a deployment would. */
export async function buildWorker(place: WorkerPlace): Promise<void> {
  const { dataDir, signal } = place;
  // Its log is of this build alone.
  rmSync(join(dataDir.logsDir, "build.log"), { force: true });
  const build = dataDir.start({
    name: "build",
    command: "wrangler",
    args: ["deploy", place.entry, "--config", configFile(place), "--dry-run", "--outdir", buildDir(place)],
    cwd: place.repoDir,
    env: { WRANGLER_SEND_METRICS: "false" },
  });
  const stop = () => void build.stop();
  signal?.addEventListener("abort", stop, { once: true });
  const { code } = await build.ended;
  signal?.removeEventListener("abort", stop);
  signal?.throwIfAborted();
  if (code === 0) return;
  throw new Error(`The Worker did not build:\n${readFileSync(build.logFile, "utf8")}`);
}

/** Starts workerd (by `wrangler dev`) on the place's state and waits until it answers. */
export async function startWorker(place: WorkerPlace): Promise<RunningWorker> {
  const envFile = join(place.dataDir.path, "worker.env");
  const lines = Object.entries(place.settings).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  writeFileSync(envFile, `${lines.join("\n")}\n`, { mode: 0o600 });
  const script = place.watch ? [place.entry] : [builtScript(place), "--no-bundle"];
  const group = place.dataDir.start({
    name: "worker",
    command: "wrangler",
    args: [
      "dev",
      ...script,
      "--config",
      place.watch ? configFile(place) : builtConfig(place),
      "--env-file",
      envFile,
      "--ip",
      "127.0.0.1",
      "--port",
      String(place.port),
      "--inspector-port",
      String(await choosePort(new Set([place.port]), Math.random)),
      "--persist-to",
      join(place.dataDir.path, "worker"),
      "--show-interactive-dev-session=false",
    ],
    cwd: place.repoDir,
    // Without CF_FETCH the runtime would ask the internet for request metadata; local observability costs CPU and disk.
    env: {
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
      X_LOCAL_OBSERVABILITY: "false",
      WRANGLER_SEND_METRICS: "false",
      CI: "1",
    },
  });
  const url = `http://127.0.0.1:${place.port}`;
  try {
    await untilHealthy(url, group, place.signal);
  } catch (error) {
    await group.stop();
    throw error;
  }
  return { url, process: group };
}

function configFile({ repoDir, config = "wrangler.toml" }: WorkerPlace): string {
  return join(repoDir, config);
}

/** A copy that belongs to the build: `wrangler dev` reloads when the file changes that it was given. */
function builtConfig(place: WorkerPlace): string {
  const copy = join(buildDir(place), "wrangler.toml");
  copyFileSync(configFile(place), copy);
  return copy;
}

function buildDir(place: WorkerPlace): string {
  return join(place.dataDir.path, "build");
}

function builtScript(place: WorkerPlace): string {
  return join(buildDir(place), `${basename(place.entry, ".ts")}.js`);
}

async function untilHealthy(url: string, group: ProcessGroup, signal: AbortSignal | undefined): Promise<void> {
  const exit = group.ended.then(({ code, signal }) => {
    throw new Error(`The Worker ended while starting (${signal ?? code}); see ${group.logFile}.`);
  });
  await Promise.race([
    exit,
    until("the Worker to answer /healthz", () => answerOf(`${url}/healthz`), { timeoutMs: READY_MS, signal }),
  ]);
}
