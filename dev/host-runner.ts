import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { DataDir } from "./data-dir.ts";
import type { ProcessGroup } from "./process-group.ts";
import { answerOf, until } from "./ready.ts";

const READY_MS = 15_000;
const hostSchema = z.object({
  providerHostId: z.string(),
  tag: z.string(),
  status: z.enum(["starting", "running", "off"]),
});
const hostsSchema = z.object({ hosts: z.array(hostSchema) });
const processSchema = z.object({ pid: z.number(), alive: z.boolean() });
const processesSchema = z.object({
  agent: z.object({ pid: z.number().nullable(), alive: z.boolean() }),
  chain: z.array(processSchema),
});

export type RunnerHost = z.output<typeof hostSchema>;

/** The development host runner as its operator sees it: what a cloud's console would offer. */
export class HostRunner {
  readonly url: string;
  readonly #token: string;

  constructor(url: string, token: string) {
    this.url = url;
    this.#token = token;
  }

  async hosts(): Promise<readonly RunnerHost[]> {
    return hostsSchema.parse(await this.#send("GET", "/hosts")).hosts;
  }

  async processes(providerHostId: string): Promise<z.output<typeof processesSchema>> {
    return processesSchema.parse(await this.#send("GET", `/hosts/${providerHostId}/processes`));
  }

  async signalAgent(providerHostId: string, signal: NodeJS.Signals): Promise<void> {
    await this.#send("POST", `/hosts/${providerHostId}/agent/kill`, { signal });
  }

  async startAgent(providerHostId: string): Promise<void> {
    await this.#send("POST", `/hosts/${providerHostId}/agent/start`, {});
  }

  async powerOff(providerHostId: string): Promise<void> {
    await this.#send("POST", `/hosts/${providerHostId}/power-off`, {});
  }

  async destroy(providerHostId: string): Promise<void> {
    await this.#send("DELETE", `/hosts/${providerHostId}`);
  }

  async #send(method: string, path: string, body?: unknown): Promise<unknown> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${this.#token}`, "content-type": "application/json" },
      signal: AbortSignal.timeout(30_000),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`The host runner answered ${response.status} to ${method} ${path}: ${text}`);
    return text === "" ? null : JSON.parse(text);
  }
}

export interface RunningHostRunner {
  readonly client: HostRunner;
  readonly process: ProcessGroup;
}

/** Starts the host runner in a process group of its own and waits until it listens. */
export async function startHostRunner(options: {
  readonly repoDir: string;
  readonly dataDir: DataDir;
  readonly port: number;
  readonly tokenFile: string;
  /** A YAML file of what every agent gets beside its own settings. */
  readonly agentSettingsFile: string;
  readonly signal?: AbortSignal | undefined;
}): Promise<RunningHostRunner> {
  const group = options.dataDir.start({
    name: "host-runner",
    command: process.execPath,
    args: [
      join(options.repoDir, "agent-bridge/host-runner/main.ts"),
      "--data-dir",
      hostsDir(options.dataDir),
      "--port",
      String(options.port),
      "--token-file",
      options.tokenFile,
      "--agent-settings",
      options.agentSettingsFile,
    ],
    cwd: options.repoDir,
  });
  const exit = group.ended.then(({ code, signal }) => {
    throw new Error(`The host runner ended while starting (${signal ?? code}); see ${group.logFile}.`);
  });
  const url = `http://127.0.0.1:${options.port}`;
  try {
    await Promise.race([
      exit,
      until("the host runner to listen", () => answerOf(`${url}/healthz`), {
        timeoutMs: READY_MS,
        signal: options.signal,
      }),
    ]);
  } catch (error) {
    await group.stop();
    throw error;
  }
  const token = readFileSync(options.tokenFile, "utf8").trim();
  return { client: new HostRunner(url, token), process: group };
}

/** Where the runner keeps its hosts. */
export function hostsDir(dataDir: DataDir): string {
  return join(dataDir.path, "hosts");
}
