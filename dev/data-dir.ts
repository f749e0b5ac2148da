import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { liveGroupMembers, type ProcessGroup, processStat, stopGroup } from "./process-group.ts";

const OWNER_FILE = "owner.json";
const LEFTOVER_GRACE_MS = 5_000;

const identitySchema = z.object({ pid: z.number().int().positive(), startTime: z.string() });
const ownerSchema = z.object({ owner: identitySchema, groups: z.array(identitySchema) });
type Identity = z.output<typeof identitySchema>;

/** The directory that holds everything of one development deployment (`.orrery` in the clone). */
export interface DataDir {
  readonly path: string;
  readonly logsDir: string;
  /** Notes a started group, so that the next start can end it should this one die without doing so. */
  register(group: ProcessGroup): void;
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
  await endLeftovers(file, path);
  const groups: Identity[] = [];
  const save = () => writeFileSync(file, JSON.stringify({ owner: identityOf(process.pid), groups }));
  save();
  return {
    path,
    logsDir,
    register: (group) => {
      groups.push(identityOf(group.pid));
      save();
    },
    release: () => rmSync(file, { force: true }),
  };
}

async function endLeftovers(file: string, path: string): Promise<void> {
  const previous = readOwner(file);
  if (previous === null) return;
  if (isAlive(previous.owner)) {
    throw new Error(`${path} is in use by process ${previous.owner.pid}; stop that one first (or use another clone).`);
  }
  for (const group of previous.groups) {
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
    // Torn by a crash in the middle of the write: there is nothing to learn from it.
    return null;
  }
}

function isAlive(identity: Identity): boolean {
  const stat = processStat(identity.pid);
  return stat !== null && stat.state !== "Z" && stat.startTime === identity.startTime;
}

function identityOf(pid: number): Identity {
  return { pid, startTime: processStat(pid)?.startTime ?? "" };
}
