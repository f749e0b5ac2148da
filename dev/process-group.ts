import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readdirSync, readFileSync } from "node:fs";

/** A program that the development start-up runs in a process group of its own, so that its children end with it. */
export interface ProcessGroup {
  readonly name: string;
  readonly pid: number;
  readonly logFile: string;
  /** Settles when the program has ended by itself or by `stop` or `kill`. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  /** SIGTERM to the whole group, SIGKILL to what is left after `graceMs`. */
  stop(graceMs?: number): Promise<void>;
  /** SIGKILL to the whole group at once. */
  kill(): Promise<void>;
}

export interface ProcessGroupOptions {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly logFile: string;
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
}

const STOP_GRACE_MS = 10_000;
const POLL_MS = 25;

export function startProcessGroup(options: ProcessGroupOptions): ProcessGroup {
  const log = openSync(options.logFile, "a");
  const child = spawn(options.command, options.args, {
    cwd: options.cwd ?? process.cwd(),
    env: { ...process.env, ...options.env },
    detached: true,
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  const { pid } = child;
  if (pid === undefined) throw new Error(`${options.name} could not be started: ${options.command} was not found.`);
  return {
    name: options.name,
    pid,
    logFile: options.logFile,
    ended: endOf(child),
    stop: (graceMs = STOP_GRACE_MS) => stopGroup(pid, graceMs),
    kill: () => killGroup(pid),
  };
}

/** Ends a process group: asks, waits, then kills what is left. */
export async function stopGroup(pgid: number, graceMs: number): Promise<void> {
  signalGroup(pgid, "SIGTERM");
  if (await isGroupGone(pgid, graceMs)) return;
  await killGroup(pgid);
}

async function killGroup(pgid: number): Promise<void> {
  signalGroup(pgid, "SIGKILL");
  await isGroupGone(pgid, STOP_GRACE_MS);
}

function signalGroup(pgid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pgid, signal);
  } catch (error) {
    // ESRCH: the whole group has ended already, which is what the caller wants.
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}

async function isGroupGone(pgid: number, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (performance.now() < deadline) {
    if (liveGroupMembers(pgid).length === 0) return true;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return liveGroupMembers(pgid).length === 0;
}

/** The pids of a process group that still run (zombies excluded: they hold nothing). */
export function liveGroupMembers(pgid: number): readonly number[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => {
      const stat = processStat(pid);
      return stat !== null && stat.pgid === pgid && stat.state !== "Z";
    });
}

interface ProcessStat {
  readonly state: string;
  readonly pgid: number;
  /** Clock ticks since boot; with the pid it names one process for good. */
  readonly startTime: string;
}

/** What /proc says of a process, or null when there is none. */
export function processStat(pid: number): ProcessStat | null {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return null;
  try {
    const text = readFileSync(file, "utf8");
    // The command name is in parentheses and may hold anything, so fields are counted from the last one.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const [state, , pgid] = fields;
    const startTime = fields[19];
    if (state === undefined || pgid === undefined || startTime === undefined) return null;
    return { state, pgid: Number(pgid), startTime };
  } catch {
    // The process ended between the look and the read.
    return null;
  }
}

async function endOf(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  const [code, signal] = await once(child, "exit");
  return { code, signal };
}
