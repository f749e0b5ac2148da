import { randomUUID } from "node:crypto";
import { chmod, constants, type FileHandle, open, rename, rm } from "node:fs/promises";
import type { DataDir, OpenDirectory } from "./data-dir.ts";

const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * Puts a file in its place in one rename: readers see the old or the new content whole, a running program keeps its old file,
 * and a link that stood at the path is replaced, not followed.
 */
export async function replaceFile(
  dataDir: DataDir,
  path: string,
  mode: number,
  write: (file: FileHandle) => Promise<void>,
): Promise<void> {
  await dataDir.withParent(path, async (parent, name) => {
    const temporary = `${parent.fd}/.${randomUUID()}.new`;
    try {
      const file = await open(temporary, NEW_FILE, mode);
      try {
        await write(file);
        // The mode given to open is cut by the umask.
        await file.chmod(mode);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, `${parent.fd}/${name}`);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  });
}

/** Gives a finished temporary file its name and mode. */
export async function finishFile(parent: OpenDirectory, temporary: string, name: string, mode: number): Promise<void> {
  await chmod(`${parent.fd}/${temporary}`, mode);
  await rename(`${parent.fd}/${temporary}`, `${parent.fd}/${name}`);
}
