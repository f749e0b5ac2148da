import { spawn } from "node:child_process";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { findHostProcesses, type HostProcess, signalProcess } from "./processes.ts";

/** How long a chain node may take to stop at a power-off before it is killed. */
const STOP_GRACE_MS = 5_000;
const GONE_WITHIN_MS = 15_000;
const LOOK_AGAIN_MS = 25;

/** What runs on one host: its agent, and the chain node that the agent started in a process group of its own. */
export class Machine {
  readonly #directory: string;
  readonly #agentEntry: string;

  constructor(directory: string, agentEntry: string) {
    this.#directory = directory;
    this.#agentEntry = agentEntry;
  }

  async processes(): Promise<readonly HostProcess[]> {
    return findHostProcesses(this.#directory, this.#agentEntry);
  }

  async agentPid(): Promise<number | null> {
    return (await this.processes()).find((entry) => entry.isAgent)?.pid ?? null;
  }

  /** Starts the agent in a process group of its own, which outlives the runner; one that runs already is kept. */
  async startAgent(): Promise<void> {
    if ((await this.agentPid()) !== null) return;
    const log = await open(join(this.#directory, "agent.log"), "a");
    try {
      const child = spawn(process.execPath, [this.#agentEntry, "--config", join(this.#directory, "agent.yaml")], {
        cwd: this.#directory,
        detached: true,
        stdio: ["ignore", log.fd, log.fd],
        env: { PATH: process.env.PATH ?? "", HOME: this.#directory },
      });
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      child.once("spawn", resolve);
      child.once("error", reject);
      await promise;
      child.unref();
    } finally {
      await log.close();
    }
  }

  /** Signals the agent alone and, when the signal ends processes, waits until it is gone. Answers its pid. */
  async signalAgent(signal: NodeJS.Signals): Promise<number | null> {
    const pid = await this.agentPid();
    if (pid === null) return null;
    signalProcess(pid, signal);
    if (signal !== "SIGSTOP" && signal !== "SIGCONT") {
      await this.#waitUntil(async () => (await this.agentPid()) !== pid, GONE_WITHIN_MS);
    }
    return pid;
  }

  /** Ends the agent first, so that it starts nothing anew, then lets the chain node stop in good order. */
  async powerOff(): Promise<void> {
    await this.signalAgent("SIGKILL");
    await this.#signalAll("SIGTERM");
    await this.#waitUntil(async () => (await this.processes()).length === 0, STOP_GRACE_MS);
    await this.kill();
  }

  /** Kills all that runs on the host, again and again until nothing is left: a process may have forked while we looked. */
  async kill(): Promise<void> {
    const gone = await this.#waitUntil(async () => {
      await this.#signalAll("SIGKILL");
      return (await this.processes()).length === 0;
    }, GONE_WITHIN_MS);
    if (!gone) throw new Error("Processes of the host could not be ended.");
  }

  async #signalAll(signal: NodeJS.Signals): Promise<void> {
    for (const { pid } of await this.processes()) signalProcess(pid, signal);
  }

  async #waitUntil(condition: () => Promise<boolean>, withinMs: number): Promise<boolean> {
    const deadline = performance.now() + withinMs;
    for (;;) {
      if (await condition()) return true;
      if (performance.now() >= deadline) return false;
      await pause(LOOK_AGAIN_MS);
    }
  }
}
