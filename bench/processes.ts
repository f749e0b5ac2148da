import { existsSync, readdirSync, readFileSync } from "node:fs";
import { liveGroupMembers } from "../dev/process-group.ts";

/** Clock ticks in a second, as the kernel reports times in /proc/<pid>/stat. */
const TICKS = 100;

/**
 * CPU time that a process has used so far, user and system, all its threads; microseconds.
 * /proc/<pid>/stat counts in hundredths of a second, which is more than a beat's cost over a short window; the scheduler's
 * own account of the same time is in nanoseconds, where the kernel keeps one.
 */
export function cpuMicros(pid: number): number {
  return existsSync(`/proc/${pid}/schedstat`) ? scheduledMicros(pid) : tickMicros(pid);
}

export interface Memory {
  readonly rssKib: number;
  /** Pages that are shared with other processes count by their share. */
  readonly pssKib: number;
}

export function memoryOf(pid: number): Memory {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  return { rssKib: field(text, "Rss"), pssKib: field(text, "Pss") };
}

/** The runtimes that `wrangler dev` has started: the front that forwards connections, and the one that holds the objects. */
export interface Runtimes {
  readonly front: number;
  readonly objects: number;
}

export function runtimesOf(wranglerGroup: number): Runtimes {
  const runtimes = liveGroupMembers(wranglerGroup).filter((pid) => nameOf(pid) === "workerd");
  const objects = runtimes.find((pid) => commandLine(pid).includes("--socket-addr=entry=127.0.0.1:0"));
  const front = runtimes.find((pid) => pid !== objects);
  if (objects === undefined || front === undefined || runtimes.length !== 2) {
    throw new Error(`wrangler dev runs ${runtimes.length} runtimes where a front and the objects' were expected.`);
  }
  return { front, objects };
}

function scheduledMicros(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const nanos = threads.map((thread) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]),
  );
  return nanos.reduce((total, each) => total + each, 0) / 1_000;
}

function tickMicros(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return ((Number(fields[11]) + Number(fields[12])) * 1_000_000) / TICKS;
}

function field(text: string, name: string): number {
  const value = new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text)?.[1];
  if (value === undefined) throw new Error(`The kernel tells no ${name} of a process.`);
  return Number(value);
}

function nameOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
}

function commandLine(pid: number): readonly string[] {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
}
