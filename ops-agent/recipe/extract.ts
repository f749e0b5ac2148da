import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, link, rename, rm, stat, symlink } from "node:fs/promises";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { type Extract, extract as untar } from "tar-stream";
import { containedLink, containedPath } from "../../domain/chain/paths.ts";
import { OrreryError } from "../../domain/errors.ts";
import { DataDir } from "./data-dir.ts";
import { replaceFile } from "./files.ts";

export interface Extraction {
  readonly from: string;
  readonly to: string;
  readonly format: "tar" | "tar.gz";
  readonly strip: number;
}

export interface ExtractContext {
  readonly dataDir: DataDir;
  readonly signal: AbortSignal;
  /** Bytes read of the archive and its size. */
  readonly onProgress: (done: number, total: number) => void;
}

/**
 * Unpacks an archive. Every entry and every link stays inside the target directory, or nothing more is unpacked.
 * Set-id bits and owners are dropped; devices and pipes are refused. Unpacking again gives the same files.
 * @throws path_outside_data_dir, step_failed
 */
export async function extract(wanted: Extraction, context: ExtractContext): Promise<void> {
  const source = await context.dataDir.existing(wanted.from);
  const { size } = await stat(source);
  const target = await context.dataDir.withDirectory(wanted.to, ({ fd }) => DataDir.open(fd));
  let done = 0;
  const counter = new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      done += chunk.length;
      context.onProgress(done, size);
      callback(null, chunk);
    },
  });
  const archive = untar();
  const { signal } = context;
  const reading =
    wanted.format === "tar"
      ? pipeline(createReadStream(source), counter, archive, { signal })
      : pipeline(createReadStream(source), counter, createGunzip(), archive, { signal });
  try {
    await Promise.all([reading, unpack(archive, target, wanted.strip)]);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof OrreryError || (error instanceof Error && "syscall" in error)) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new OrreryError("step_failed", `${wanted.from} cannot be unpacked: ${reason}.`, {}, { cause: error });
  }
}

async function unpack(archive: Extract, target: DataDir, strip: number): Promise<void> {
  for await (const entry of archive) {
    const path = strippedPath(entry.header.name, strip);
    if (path !== null) await unpackEntry(entry, path, target, strip);
    entry.resume();
  }
}

type Entry = Extract extends AsyncIterable<infer E> ? E : never;

/** The entry's path without its first parts, in normal form; null for what is stripped away whole. */
function strippedPath(name: string, strip: number): string | null {
  // Archives name their root `./`, and directories with a slash at the end.
  if (/^[./]*$/.test(name) && !name.includes("..") && !name.startsWith("/")) return null;
  const result = containedPath(name);
  if (!result.ok) throw outside(name, result.reason);
  const parts = result.path.split("/").slice(strip);
  return parts.length === 0 ? null : parts.join("/");
}

async function unpackEntry(entry: Entry, path: string, target: DataDir, strip: number): Promise<void> {
  const { type, mode, linkname, name } = entry.header;
  switch (type) {
    case "directory":
      return target.withDirectory(path, async () => undefined);
    case "file":
    case "contiguous-file":
      return replaceFile(target, path, fileMode(mode), (file) => copy(entry, file));
    case "symlink":
      return makeSymlink(target, path, linkname);
    case "link":
      return makeHardLink(target, path, linkname, strip);
    default:
      throw new OrreryError(
        "step_failed",
        `The archive's entry ${JSON.stringify(name)} is a ${type}, which is refused.`,
      );
  }
}

async function copy(entry: Entry, file: FileHandle): Promise<void> {
  for await (const chunk of entry) {
    if (chunk instanceof Uint8Array) await file.writeFile(chunk);
  }
}

function makeSymlink(target: DataDir, path: string, linkname: string): Promise<void> {
  return target.withParent(path, async (parent, name) => {
    const link = parent.real === "" ? name : `${parent.real}/${name}`;
    const result = containedLink(link, linkname);
    if (!result.ok) throw outside(`${path} -> ${linkname}`, result.reason);
    const temporary = `${parent.fd}/.${randomUUID()}.new`;
    await symlink(linkname, temporary);
    await rename(temporary, `${parent.fd}/${name}`);
  });
}

/** A hard link names another entry of the archive by its whole path. */
async function makeHardLink(target: DataDir, path: string, linkname: string, strip: number): Promise<void> {
  const from = strippedPath(linkname, strip);
  if (from === null) throw outside(`${path} -> ${linkname}`, "links to something that is stripped away");
  const source = await target.existing(from);
  await target.withParent(path, async (parent, name) => {
    const temporary = `${parent.fd}/.${randomUUID()}.new`;
    await link(source, temporary);
    await rename(temporary, `${parent.fd}/${name}`);
    // Renaming a link over another link of the same file leaves both names.
    await rm(temporary, { force: true });
  });
}

/** Only permissions of the owner and reading and executing by others; never set-id, never writable by others. */
function fileMode(mode: number): number {
  return (mode & 0o755) | 0o600;
}

function outside(path: string, reason: string): OrreryError {
  return new OrreryError("path_outside_data_dir", `The archive's entry ${JSON.stringify(path)} ${reason}.`, { path });
}
