import { readdir, readFile, readlink } from "node:fs/promises";
import { join, sep } from "node:path";

/**
 * The processes that belong to a host, found in /proc by what they point at. Nothing is remembered: a number that the
 * system has given to somebody else meanwhile can never be signalled.
 */
export interface HostProcess {
  readonly pid: number;
  readonly isAgent: boolean;
}

const HOME = "HOME=";

/**
 * The living processes whose home or program lies in `hostDir`; the agent first. The agent gives all that it starts a
 * home in the host's directory; a person's shell that merely stands there, or an editor, is not the host's.
 */
export async function findHostProcesses(hostDir: string, agentEntry: string): Promise<readonly HostProcess[]> {
  const pids = (await readdir("/proc")).map(Number).filter((pid) => Number.isInteger(pid) && pid !== process.pid);
  const found = await Promise.all(pids.map((pid) => inspect(pid, hostDir, agentEntry)));
  return found.filter((entry) => entry !== null).sort((a, b) => Number(b.isAgent) - Number(a.isAgent));
}

async function inspect(pid: number, hostDir: string, agentEntry: string): Promise<HostProcess | null> {
  const [args, environment, program] = await Promise.all([
    readOrEmpty(() => readFile(`/proc/${pid}/cmdline`, "utf8")),
    readOrEmpty(() => readFile(`/proc/${pid}/environ`, "utf8")),
    readOrEmpty(() => readlink(`/proc/${pid}/exe`)),
  ]);
  const words = args.split("\0");
  const home = environment.split("\0").find((entry) => entry.startsWith(HOME));
  const belongs = isInside(program, hostDir) || (home !== undefined && isInside(home.slice(HOME.length), hostDir));
  if (!belongs) return null;
  return { pid, isAgent: words.includes(agentEntry) && words.includes(join(hostDir, "agent.yaml")) };
}

/** A process that ended while we looked, or that is another user's, has nothing to say to us. */
async function readOrEmpty(read: () => Promise<string>): Promise<string> {
  try {
    return await read();
  } catch {
    return "";
  }
}

function isInside(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory + sep);
}

/** Sends a signal to a process; one that is gone already is a success. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (errorCode(error) !== "ESRCH") throw error;
  }
}

function errorCode(error: unknown): unknown {
  return typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
}
