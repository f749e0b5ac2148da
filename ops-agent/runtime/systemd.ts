import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type ErrorCode, OrreryError } from "../../domain/errors.ts";
import type { Logger } from "../log.ts";
import { writeDurably } from "../state/durable.ts";
import type { ProcessSpec, RuntimeAdapter } from "./adapter.ts";
import { renderUnit, unitName } from "./unit-file.ts";

const POLL_MS = 200;

export interface SystemctlResult {
  readonly code: number;
  readonly output: string;
}

/** All that this agent asks of the service manager goes through one such function. */
export type Systemctl = (...args: readonly string[]) => Promise<SystemctlResult>;

export interface SystemdAdapterOptions {
  readonly unitDir: string;
  readonly user: string | null;
  readonly systemctl: Systemctl;
  readonly log: Logger;
}

/** Runs the chain node as a unit of the host's service manager, which also restarts it after a crash and after a reboot. */
export class SystemdAdapter implements RuntimeAdapter {
  readonly #options: SystemdAdapterOptions;

  constructor(options: SystemdAdapterOptions) {
    this.#options = options;
  }

  /** Writes the unit file; an unchanged one is left alone, so that a repeated CONFIGURE does nothing. */
  async install(spec: ProcessSpec): Promise<void> {
    const path = join(this.#options.unitDir, unitName(spec.nodeId));
    const text = renderUnit(spec, this.#options.user);
    if (existsSync(path) && readFileSync(path, "utf8") === text) return;
    writeDurably(path, text, 0o644);
    await this.#require("command_failed", "daemon-reload");
    this.#options.log.info({ path }, "unit file written");
  }

  /** Starts the unit, and enables it so that a reboot starts it too. */
  async start(spec: ProcessSpec): Promise<void> {
    if (await this.isRunning(spec)) return;
    const unit = unitName(spec.nodeId);
    // A unit that crashed too often refuses to start until its count is reset.
    await this.#options.systemctl("reset-failed", unit);
    await this.#require("process_start_failed", "enable", "--now", unit);
    if (!(await this.isRunning(spec))) {
      throw new OrreryError(
        "process_start_failed",
        `${unit} is not active after its start; see its journal on the host.`,
      );
    }
  }

  async resume(): Promise<void> {
    // An enabled unit is started by the system itself.
  }

  /** Stops the unit, and disables it so that a node that was stopped on purpose stays stopped after a reboot. */
  async stop(spec: ProcessSpec, graceMs: number): Promise<void> {
    const unit = unitName(spec.nodeId);
    if (!existsSync(join(this.#options.unitDir, unit))) return;
    await this.#require("command_failed", "disable", unit);
    await this.#require("command_failed", "stop", "--no-block", unit);
    const deadline = performance.now() + graceMs;
    for (let isKilled = false; !(await this.#hasEnded(unit)); await delay(POLL_MS)) {
      if (isKilled || performance.now() < deadline) continue;
      this.#options.log.warn({ unit, graceMs }, "chain node is killed");
      await this.#options.systemctl("kill", "--signal=SIGKILL", unit);
      isKilled = true;
    }
  }

  async isRunning(spec: ProcessSpec): Promise<boolean> {
    return (await this.#options.systemctl("is-active", unitName(spec.nodeId))).output.trim() === "active";
  }

  async #hasEnded(unit: string): Promise<boolean> {
    const { output } = await this.#options.systemctl("is-active", unit);
    return ["inactive", "failed", "unknown"].includes(output.trim());
  }

  async #require(failure: ErrorCode, ...args: readonly string[]): Promise<void> {
    const { code, output } = await this.#options.systemctl(...args);
    if (code === 0) return;
    throw new OrreryError(failure, `systemctl ${args.join(" ")} ended with ${code}: ${output.trim()}`);
  }
}

/** The host's own `systemctl`. */
export const systemctl: Systemctl = (...args) => {
  const { promise, resolve } = Promise.withResolvers<SystemctlResult>();
  execFile("systemctl", [...args], { timeout: 120_000 }, (error, stdout, stderr) => {
    const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1;
    resolve({ code, output: `${stdout}${stderr}` });
  });
  return promise;
};
