import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { replaceFile } from "./durable-file.ts";
import { holdDirectory } from "./exclusive.ts";
import {
  liveGroupMembers,
  type ProcessGroup,
  type ProcessGroupOptions,
  processStat,
  startProcessGroup,
  stopGroup,
} from "./process-group.ts";

const OWNER_FILE = "owner.json";
const LEFTOVER_GRACE_MS = 5_000;

const identitySchema = z.object({ pid: z.number().int().positive(), startTime: z.string() });
const ownerSchema = z.object({ owner: identitySchema, groups: z.array(identitySchema) });
type Identity = z.output<typeof identitySchema>;

/** The directory that holds everything of one development deployment (`.orrery` in the clone). */
export interface DataDir {
  readonly path: string;
  readonly logsDir: string;
  /** Starts a program and notes its group at once, so that the next start can end it should this one die without doing so. */
  start(options: Omit<ProcessGroupOptions, "logFile">): ProcessGroup;
  release(): void;
}

/**
 * Takes the directory for this process. Groups that a killed owner left running are ended first.
 * @throws Error when a living process holds it.
 */
export async function openDataDir(path: string): Promise<DataDir> {
  const logsDir = join(path, "logs");
  mkdirSync(logsDir, { recursive: true });
  const file = join(path, OWNER_FILE);
  const letGo = await holdDirectory(path);
  const previous = readOwner(file);
  if (letGo === null) {
    const holder = previous === null ? "another process" : `process ${previous.owner.pid}`;
    throw new Error(`${path} is in use by ${holder}; stop that one first (or use another clone).`);
  }
  await endLeftovers(previous?.groups ?? []);
  const groups: Identity[] = [];
  const save = () => replaceFile(file, JSON.stringify({ owner: identityOf(process.pid), groups }));
  save();
  return {
    path,
    logsDir,
    start: (options) => {
      const group = startProcessGroup({ ...options, logFile: join(logsDir, `${options.name}.log`) });
      groups.push(identityOf(group.pid));
      save();
      return group;
    },
    release: () => {
      rmSync(file, { force: true });
      letGo();
    },
  };
}

async function endLeftovers(groups: readonly Identity[]): Promise<void> {
  for (const group of groups) {
    // The leader's start time proves that the number was not given to a stranger since; a dead leader's group is
    // still ours while members live, because the system does not reuse a pid that names a living group.
    const leader = processStat(group.pid);
    if (leader !== null && leader.startTime !== group.startTime) continue;
    if (liveGroupMembers(group.pid).length > 0) await stopGroup(group.pid, LEFTOVER_GRACE_MS);
  }
}

function readOwner(file: string): z.output<typeof ownerSchema> | null {
  if (!existsSync(file)) return null;
  try {
    return ownerSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    // Another version's: there is nothing to learn from it.
    return null;
  }
}

function identityOf(pid: number): Identity {
  return { pid, startTime: processStat(pid)?.startTime ?? "" };
}
