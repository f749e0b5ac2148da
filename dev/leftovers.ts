import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** Processes whose command line or working directory names the data directory: everything that a stack started. */
function processesOf(dataDir: string): readonly { readonly pid: number; readonly command: string }[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid)
    .map((entry) => ({ pid: Number(entry), command: commandLine(entry), cwd: workingDirectory(entry) }))
    .filter(({ command, cwd }) => command.includes(`${dataDir}/`) || cwd.startsWith(`${dataDir}/`))
    .map(({ pid, command }) => ({ pid, command }));
}

/** @throws Error that names each process of the data directory that still runs. */
export function requireNoProcesses(dataDir: string): void {
  const left = processesOf(dataDir);
  if (left.length === 0) return;
  throw new Error(`Still running: ${left.map(({ pid, command }) => `${pid} (${command})`).join("; ")}`);
}

function commandLine(pid: string): string {
  return read(() => readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim());
}

function workingDirectory(pid: string): string {
  return read(() => readlinkSync(`/proc/${pid}/cwd`));
}

/** A process that ends while it is looked at is one that is not left. */
function read(look: () => string): string {
  try {
    return look();
  } catch {
    return "";
  }
}
