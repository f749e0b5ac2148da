import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { z } from "zod";
import { type Scope, testScope } from "./scope.ts";

const announcementSchema = z.object({ url: z.string(), http_url: z.string() });

type Environment = Readonly<Record<string, string>>;

/** A command that runs the bridge, where, and as which user. */
export interface BridgeCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly uid?: number;
  readonly gid?: number;
}

const FROM_SOURCE: BridgeCommand = {
  command: process.execPath,
  args: ["agent-bridge/gateway/main.ts"],
  cwd: process.cwd(),
};

interface StartOptions {
  readonly scope?: Scope;
  readonly how?: BridgeCommand;
}

/** The bridge as a real process. It is killed when its scope ends. */
export class BridgeProcess {
  /** All that it wrote. */
  output = "";
  url = "";
  httpUrl = "";
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;

  /** Starts it and waits until it listens. */
  static async start(
    env: Environment,
    { scope = testScope, how = FROM_SOURCE }: StartOptions = {},
  ): Promise<BridgeProcess> {
    const bridge = new BridgeProcess(env, how, scope);
    await bridge.#listening();
    return bridge;
  }

  /** Starts it with settings that it should refuse, and waits until it has ended. */
  static async refused(env: Environment): Promise<BridgeProcess> {
    const bridge = new BridgeProcess(env, FROM_SOURCE, testScope);
    await bridge.ended();
    return bridge;
  }

  private constructor(env: Environment, { command, args, ...place }: BridgeCommand, scope: Scope) {
    this.#child = spawn(command, args, {
      ...place,
      env: { PATH: process.env.PATH, LISTEN: "127.0.0.1:0", HTTP_LISTEN: "127.0.0.1:0", LOG_LEVEL: "error", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#exited = once(this.#child, "exit");
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on("data", (chunk: Buffer) => {
        this.output += chunk.toString();
      });
    }
    scope(() => this.kill("SIGKILL"));
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get exitCode(): number | null {
    return this.#child.exitCode;
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Resident memory in MiB. */
  get residentMiB(): number {
    const [, kib] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${this.pid}/status`, "utf8")) ?? [];
    return Number(kib) / 1024;
  }

  /** The value of one of its metrics; 0 before it has one. */
  async metric(name: string): Promise<number> {
    const text = await (await fetch(`${this.httpUrl}/metrics`)).text();
    const line = text.split("\n").find((candidate) => candidate.startsWith(`${name} `));
    return Number(line?.split(" ").at(-1) ?? 0);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Resolves with the exit code, null after a signal. */
  async ended(): Promise<number | null> {
    await this.#exited;
    return this.#child.exitCode;
  }

  async kill(signal: NodeJS.Signals): Promise<number | null> {
    if (this.isAlive) this.signal(signal);
    return this.ended();
  }

  async #listening(): Promise<void> {
    const { stdout } = this.#child;
    if (stdout === null) throw new Error("The bridge has no output.");
    const lines = createInterface({ input: stdout });
    const ended = this.#exited.then(() => Promise.reject(new Error(`The bridge ended: ${this.output}`)));
    const [line] = await Promise.race([once(lines, "line"), ended]);
    const { url, http_url: httpUrl } = announcementSchema.parse(JSON.parse(String(line)));
    this.url = url;
    this.httpUrl = httpUrl;
  }
}
