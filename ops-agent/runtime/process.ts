import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { OrreryError } from "../../domain/errors.ts";
import type { Logger } from "../log.ts";
import { writeDurably } from "../state/durable.ts";
import type { ProcessSpec, RuntimeAdapter } from "./adapter.ts";
import { programEnvironment } from "./environment.ts";
import {
  CHAIN_MARK,
  findByEnvironment,
  identify,
  isAlive,
  killMarked,
  type ProcessIdentity,
  sendSignal,
} from "./proc.ts";

const POLL_MS = 50;
/** The system ends a killed process at once, unless it hangs in the kernel. */
const KILL_MS = 30_000;
const LOG_MAX_BYTES = 16 * 1024 * 1024;

const identitySchema = z.object({ pid: z.int().positive(), startTicks: z.number(), bootId: z.string() });

export interface ProcessAdapterOptions {
  readonly stateDir: string;
  readonly log: Logger;
  /** A node that ends within this time did not start. */
  readonly settleMs: number;
}

/**
 * Runs the chain node as a plain process in a session and group of its own. It outlives the agent and is adopted
 * by the next one through `node.pid`, whose start time proves that the pid still means the same process.
 */
export class ProcessAdapter implements RuntimeAdapter {
  readonly #pidFile: string;
  readonly #logFile: string;
  readonly #log: Logger;
  readonly #settleMs: number;

  constructor(options: ProcessAdapterOptions) {
    this.#pidFile = join(options.stateDir, "node.pid");
    this.#logFile = join(options.stateDir, "node.log");
    this.#log = options.log;
    this.#settleMs = options.settleMs;
  }

  async install(): Promise<void> {
    // A plain process needs nothing beside its files.
  }

  async start(spec: ProcessSpec, signal: AbortSignal): Promise<void> {
    if (this.#running(spec) !== null) return;
    signal.throwIfAborted();
    const identity = await this.#spawn(spec);
    const settled = performance.now() + this.#settleMs;
    while (performance.now() < settled) {
      if (!isAlive(identity)) {
        throw new OrreryError(
          "process_start_failed",
          "The chain node ended at once; its output is in node.log on the host.",
        );
      }
      await delay(POLL_MS);
    }
    this.#log.info({ pid: identity.pid }, "chain node started");
  }

  /** The note is removed by a stop alone, so one without its process means that the host went down under the node. */
  async resume(spec: ProcessSpec, signal: AbortSignal): Promise<void> {
    if (this.#noted() !== null) await this.start(spec, signal);
  }

  async stop(spec: ProcessSpec, graceMs: number): Promise<void> {
    const running = this.#running(spec);
    // First of all, so that an agent which dies in the middle of a stop does not start the node again.
    rmSync(this.#pidFile, { force: true });
    if (running !== null) {
      sendSignal(-running.pid, spec.stopSignal);
      if (!(await hasEnded(running, graceMs))) this.#log.warn({ pid: running.pid, graceMs }, "chain node is killed");
    }
    // The leader's helpers, or a leader that would not go.
    const deadline = performance.now() + KILL_MS;
    while (killMarked(CHAIN_MARK, spec.dataDir) > 0) {
      if (performance.now() > deadline) {
        throw new OrreryError("command_failed", "The chain node's processes do not end, not even by force.");
      }
      await delay(POLL_MS);
    }
    if (running !== null) this.#log.info({ pid: running.pid }, "chain node stopped");
  }

  async isRunning(spec: ProcessSpec): Promise<boolean> {
    return this.#running(spec) !== null;
  }

  /** The chain node's process: by its note, or by its mark when the note was never written. */
  #running(spec: ProcessSpec): ProcessIdentity | null {
    const noted = this.#noted();
    if (noted !== null && isAlive(noted)) return noted;
    const [pid] = findByEnvironment(CHAIN_MARK, spec.dataDir);
    const found = pid === undefined ? null : identify(pid);
    if (found !== null) this.#note(found);
    return found;
  }

  async #spawn(spec: ProcessSpec): Promise<ProcessIdentity> {
    const output = this.#openLog();
    try {
      const child = spawn(spec.program, [...spec.args], {
        cwd: spec.dataDir,
        env: { ...programEnvironment(spec.dataDir, spec.env), [CHAIN_MARK]: spec.dataDir },
        detached: true,
        stdio: ["ignore", output, output],
      });
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      child.once("spawn", resolve);
      child.once("error", reject);
      await promise.catch((cause) => {
        throw new OrreryError(
          "process_start_failed",
          `The chain node cannot be started: ${String(cause)}.`,
          {},
          { cause },
        );
      });
      child.unref();
      const identity = identify(child.pid ?? 0);
      if (identity === null) {
        throw new OrreryError(
          "process_start_failed",
          "The chain node ended at once; its output is in node.log on the host.",
        );
      }
      this.#note(identity);
      return identity;
    } finally {
      closeSync(output);
    }
  }

  #note(identity: ProcessIdentity): void {
    writeDurably(this.#pidFile, JSON.stringify(identity));
  }

  #noted(): ProcessIdentity | null {
    try {
      return identitySchema.parse(JSON.parse(readFileSync(this.#pidFile, "utf8")));
    } catch {
      // There is no note; the mark decides.
      return null;
    }
  }

  /** The node's output is appended to one file; a long one is put aside at a start. */
  #openLog(): number {
    const size = statSync(this.#logFile, { throwIfNoEntry: false })?.size ?? 0;
    if (size > LOG_MAX_BYTES) renameSync(this.#logFile, `${this.#logFile}.1`);
    return openSync(this.#logFile, "a", 0o600);
  }
}

async function hasEnded(identity: ProcessIdentity, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (isAlive(identity)) {
    if (performance.now() >= deadline) return false;
    await delay(POLL_MS);
  }
  return true;
}
