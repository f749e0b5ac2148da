import { constants, type FileHandle, mkdir, open, readlink, realpath } from "node:fs/promises";
import { relative } from "node:path";
import { containedPath } from "../../domain/chain/paths.ts";
import { OrreryError } from "../../domain/errors.ts";

/** A directory that is held open, so that no rename or link can change what its entries are while they are used. */
export interface OpenDirectory {
  /** A path that stands for the open directory itself. */
  readonly fd: string;
  /** Its place in the data directory with all links resolved; empty for the data directory itself. */
  readonly real: string;
}

/**
 * The node's data directory: the only place that chain files can reach.
 * A path is checked by its text, then its existing part by where its links really lead, and is then walked
 * one open directory at a time without following links, so that nothing that runs on the node can swap a part in between.
 */
export class DataDir {
  readonly #root: string;

  /** @param root absolute, with links resolved */
  constructor(root: string) {
    this.#root = root;
  }

  static async open(path: string): Promise<DataDir> {
    await mkdir(path, { recursive: true, mode: 0o750 });
    return new DataDir(await realpath(path));
  }

  get path(): string {
    return this.#root;
  }

  /**
   * Runs an action on a path's parent directory, which is made when it is missing, and the last part of the path.
   * @throws path_outside_data_dir
   */
  async withParent<T>(path: string, action: (parent: OpenDirectory, name: string) => Promise<T>): Promise<T> {
    const parts = this.#contained(path).split("/");
    const name = parts.pop() ?? "";
    return this.#withDirectory(parts, path, (directory) => action(directory, name));
  }

  /** Runs an action on a directory, which is made when it is missing. */
  async withDirectory<T>(path: string, action: (directory: OpenDirectory) => Promise<T>): Promise<T> {
    return this.#withDirectory(this.#contained(path).split("/"), path, action);
  }

  /**
   * The absolute path, links resolved, of something that exists.
   * @throws path_outside_data_dir, step_failed when there is nothing
   */
  async existing(path: string): Promise<string> {
    const inside = this.#contained(path);
    const real = await realpath(`${this.#root}/${inside}`).catch((cause) => {
      throw new OrreryError("step_failed", `There is no ${inside} in the data directory.`, {}, { cause });
    });
    this.#requireInside(real, path);
    return real;
  }

  #contained(path: string): string {
    const result = containedPath(path);
    if (!result.ok) throw outside(path, result.reason);
    return result.path;
  }

  #requireInside(real: string, path: string): void {
    if (real !== this.#root && !real.startsWith(`${this.#root}/`)) throw outside(path, "leads outside through a link");
  }

  async #withDirectory<T>(
    parts: readonly string[],
    path: string,
    action: (directory: OpenDirectory) => Promise<T>,
  ): Promise<T> {
    const real = await this.#resolveLinks(parts, path);
    let directory = await openDirectory(this.#root);
    try {
      for (const part of real) {
        const next = await openOrMake(`${fdPath(directory)}/${part}`, path);
        await directory.close();
        directory = next;
      }
      return await action({ fd: fdPath(directory), real: real.join("/") });
    } finally {
      await directory.close();
    }
  }

  /** The parts with every link in their existing beginning replaced by where it leads. */
  async #resolveLinks(parts: readonly string[], path: string): Promise<string[]> {
    for (let count = parts.length; count > 0; count -= 1) {
      const candidate = [this.#root, ...parts.slice(0, count)].join("/");
      const real = await realpath(candidate).catch(() => null);
      if (real === null) {
        // A link to nothing has no real path, but making a directory through it would leave.
        if (await isLink(candidate)) throw outside(path, "goes through a link to nothing");
        continue;
      }
      this.#requireInside(real, path);
      const resolved = relative(this.#root, real);
      return [...(resolved === "" ? [] : resolved.split("/")), ...parts.slice(count)];
    }
    return [...parts];
  }
}

function openDirectory(path: string): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
}

async function openOrMake(path: string, asked: string): Promise<FileHandle> {
  await mkdir(path, { mode: 0o750 }).catch((error) => {
    if (errnoOf(error) !== "EEXIST") throw error;
  });
  try {
    return await openDirectory(path);
  } catch (error) {
    if (errnoOf(error) === "ELOOP") throw outside(asked, "goes through a link that appeared meanwhile");
    if (errnoOf(error) === "ENOTDIR")
      throw new OrreryError("step_failed", `A part of ${asked} is a file, not a directory.`);
    throw error;
  }
}

function fdPath(directory: FileHandle): string {
  return `/proc/self/fd/${directory.fd}`;
}

async function isLink(path: string): Promise<boolean> {
  return readlink(path).then(
    () => true,
    () => false,
  );
}

function outside(path: string, reason: string): OrreryError {
  return new OrreryError("path_outside_data_dir", `The path ${JSON.stringify(path)} ${reason}.`, { path });
}

/** The system's name of an error, for example ENOENT. */
export function errnoOf(error: unknown): string | null {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : null;
}
