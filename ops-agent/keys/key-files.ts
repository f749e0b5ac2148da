import { createHash } from "node:crypto";
import { constants, lstat, open, rename, rm } from "node:fs/promises";
import { OrreryError } from "../../domain/errors.ts";
import { type DataDir, errnoOf } from "../recipe/data-dir.ts";
import type { Account } from "./accounts.ts";

/** A key as it is to stand on the disk. */
export interface KeyFile {
  readonly name: string;
  /** Inside the data directory. */
  readonly path: string;
  /** Null: the agent's own account. */
  readonly owner: Account | null;
  /** Permission bits. */
  readonly mode: number;
  readonly content: Uint8Array;
}

const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
/** Until it has its owner and mode. */
const OWN_MODE = 0o600;

/**
 * Puts keys in their places: all are written beside them and on the disk before the first gets its name, by one rename
 * each. What fails leaves the files as they were, and nothing half written.
 * @throws key_injection_failed, disk_full, path_outside_data_dir
 */
export async function writeKeyFiles(dataDir: DataDir, files: readonly KeyFile[]): Promise<void> {
  const [file, ...others] = files;
  if (file === undefined) return;
  try {
    await dataDir.withParent(file.path, async ({ fd }, name) => {
      // One name for each key, so that the next try clears away what a crash has left.
      const temporary = `${fd}/${temporaryName(name)}`;
      await rm(temporary, { force: true });
      try {
        await writeTemporary(temporary, file);
        await requireNoDirectory(`${fd}/${name}`, file);
        await writeKeyFiles(dataDir, others);
        await rename(temporary, `${fd}/${name}`);
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
      await syncDirectory(fd);
    });
  } catch (error) {
    throw keyError(file, error);
  }
}

/** Where a key stands until it is whole, beside its place. */
export function temporaryName(name: string): string {
  return `.orrery-key-${createHash("sha256").update(name).digest("hex").slice(0, 16)}`;
}

async function writeTemporary(temporary: string, { name, owner, mode, content }: KeyFile): Promise<void> {
  const handle = await open(temporary, NEW_FILE, OWN_MODE);
  try {
    await handle.writeFile(content);
    if (owner !== null) await handle.chown(owner.uid, owner.gid).catch((cause) => refuseOwner(name, owner, cause));
    // After the owner, because a change of owner may take permissions away.
    await handle.chmod(mode);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function refuseOwner(key: string, { uid, gid }: Account, cause: unknown): never {
  const message = `The agent may not give the key ${key} to the account ${uid}:${gid}; run it as root, or name no owner.`;
  throw new OrreryError("key_injection_failed", message, {}, { cause });
}

/** Asked before anything is renamed: a directory is the one thing that a rename cannot replace. */
async function requireNoDirectory(path: string, { name, path: asked }: KeyFile): Promise<void> {
  const there = await lstat(path).catch(() => null);
  if (there?.isDirectory() !== true) return;
  throw new OrreryError("key_injection_failed", `The place of the key ${name}, ${asked}, is a directory.`);
}

async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function keyError({ name }: KeyFile, thrown: unknown): OrreryError {
  if (thrown instanceof OrreryError) return thrown;
  const errno = errnoOf(thrown);
  if (errno === "ENOSPC" || errno === "EDQUOT") {
    return new OrreryError(
      "disk_full",
      `The key ${name} was not written: the data disk is full.`,
      {},
      { cause: thrown },
    );
  }
  const reason = errno ?? "the reason is in the agent's log";
  return new OrreryError("key_injection_failed", `The key ${name} was not written: ${reason}.`, {}, { cause: thrown });
}
