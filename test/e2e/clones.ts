import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, stringify } from "yaml";

/** A host's state directory, token and settings, copied away: what a thief of the disk has, or a backup. */
export class StolenState {
  readonly directory = mkdtempSync(join(tmpdir(), "orrery-e2e-clone-"));
  output = "";
  #agent: ChildProcess | null = null;

  constructor(host: string) {
    for (const name of ["state", "node-token"]) {
      cpSync(join(host, name), join(this.directory, name), {
        recursive: true,
        filter: (path) => !path.endsWith(".sock"),
      });
    }
    mkdirSync(join(this.directory, "data"));
    const settings = parse(readFileSync(join(host, "agent.yaml"), "utf8"));
    const own = { token_file: "node-token", state_dir: "state", data_dir: "data" };
    writeFileSync(join(this.directory, "agent.yaml"), stringify({ ...settings, ...own }));
  }

  /** Puts the copied state back, as a restore of a backup would. */
  restoreTo(host: string): void {
    rmSync(join(host, "state"), { recursive: true });
    cpSync(join(this.directory, "state"), join(host, "state"), { recursive: true });
  }

  /** Starts an agent on the copy. The chain node's own record is taken away: it runs on the host, and is left alone. */
  start(): void {
    for (const name of ["installed.json", "node.pid"]) rmSync(join(this.directory, "state", name), { force: true });
    const agent = spawn(process.execPath, ["ops-agent/main.ts", "--config", join(this.directory, "agent.yaml")]);
    for (const stream of [agent.stdout, agent.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        this.output += chunk.toString();
      });
    }
    this.#agent = agent;
  }

  get isRunning(): boolean {
    return this.#agent !== null && this.#agent.exitCode === null && this.#agent.signalCode === null;
  }

  /** How the agent on the copy ended by itself; null while it runs, and when it was killed. */
  get exitCode(): number | null {
    return this.#agent?.exitCode ?? null;
  }

  signal(signal: NodeJS.Signals): void {
    this.#agent?.kill(signal);
  }

  /** Ends the agent on the copy. */
  async stop(): Promise<void> {
    const agent = this.#agent;
    if (agent === null || !this.isRunning) return;
    agent.kill("SIGKILL");
    await once(agent, "exit");
  }

  async destroy(): Promise<void> {
    await this.stop();
    rmSync(this.directory, { recursive: true, force: true });
  }
}
