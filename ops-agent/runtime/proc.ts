import { readdirSync, readFileSync } from "node:fs";

/**
 * Entries of the environment, with the data directory as their value, by which the agent's programs are found again
 * when the agent died before it had noted them: the chain node, and programs of a recipe.
 */
export const CHAIN_MARK = "ORRERY_DATA_DIR";
export const RECIPE_MARK = "ORRERY_RECIPE_DIR";

/** What tells one process from every other that ever had its pid. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks from the boot to the start of the process. */
  readonly startTicks: number;
  readonly bootId: string;
}

interface ProcessFacts {
  readonly state: string;
  readonly group: number;
  readonly startTicks: number;
}

/** Fields of /proc/<pid>/stat after the command's name in parentheses (see proc_pid_stat(5)). */
const STATE = 0;
const GROUP = 2;
const START = 19;

/** The identity of a live process, or null when there is none with this pid. */
export function identify(pid: number): ProcessIdentity | null {
  const facts = readFacts(pid);
  return facts === null ? null : { pid, startTicks: facts.startTicks, bootId: bootId() };
}

/** Whether exactly this process lives. A zombie has ended. */
export function isAlive(identity: ProcessIdentity): boolean {
  const facts = readFacts(identity.pid);
  return facts !== null && facts.startTicks === identity.startTicks && bootId() === identity.bootId;
}

/** The pids of live processes whose environment holds the entry, group leaders first. */
export function findByEnvironment(name: string, value: string): number[] {
  const entry = `${name}=${value}`;
  const found = readdirSync("/proc").flatMap((text) => {
    const pid = /^\d+$/.test(text) ? Number(text) : null;
    if (pid === null || !environmentOf(pid).includes(entry)) return [];
    const facts = readFacts(pid);
    return facts === null ? [] : [{ pid, isLeader: facts.group === pid }];
  });
  return found.sort((a, b) => Number(b.isLeader) - Number(a.isLeader)).map(({ pid }) => pid);
}

/** Kills every process that carries the mark; answers how many there were. */
export function killMarked(name: string, value: string): number {
  const pids = findByEnvironment(name, value);
  for (const pid of pids) sendSignal(pid, "SIGKILL");
  return pids.length;
}

/** Signals a process, or with a negative pid its group; one that has ended already is no error. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended already.
  }
}

function readFacts(pid: number): ProcessFacts | null {
  const text = readOrNull(`/proc/${pid}/stat`);
  if (text === null) return null;
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const state = fields[STATE] ?? "X";
  if (state === "Z" || state === "X") return null;
  return { state, group: Number(fields[GROUP]), startTicks: Number(fields[START]) };
}

function environmentOf(pid: number): readonly string[] {
  return readOrNull(`/proc/${pid}/environ`)?.split("\0") ?? [];
}

function bootId(): string {
  return readOrNull("/proc/sys/kernel/random/boot_id")?.trim() ?? "";
}

/** A process can end between any two looks at it, and another user's may not be looked at. */
function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}
