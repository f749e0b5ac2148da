import { createHash, type Hash } from "node:crypto";
import { constants, type FileHandle, open, readFile, rm, writeFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { errorCodeOf, OrreryError } from "../../domain/errors.ts";
import type { DataDir, OpenDirectory } from "./data-dir.ts";
import { finishFile } from "./files.ts";

export interface Download {
  readonly url: string;
  /** `sha256:` and hex. */
  readonly checksum: string;
  readonly to: string;
  readonly mode: number;
}

export interface DownloadContext {
  readonly dataDir: DataDir;
  readonly signal: AbortSignal;
  /** Bytes done and expected; 0 total while it is not known. */
  readonly onProgress: (done: number, total: number) => void;
  /** The wait before the first retry; doubled for each further one. */
  readonly retryMs: number;
}

/** Attempts in a row that came no further than one before them: a server may break at the same place for ever. */
const FRUITLESS_ATTEMPTS = 5;
const PART_FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW;

/** What a partial file is a part of; without the server's validator it cannot be continued. */
const partSchema = z.object({ url: z.string(), checksum: z.string(), validator: z.string() });
type Part = z.output<typeof partSchema>;

/**
 * Downloads a file whose checksum is known. A file that is already right is left alone; a download that was cut off
 * goes on where it stopped if the server still has the same content; the name appears only when the checksum is right.
 * @throws download_failed, checksum_mismatch, path_outside_data_dir
 */
export async function download(wanted: Download, context: DownloadContext): Promise<void> {
  if (!/^sha256:[0-9a-f]{64}$/.test(wanted.checksum)) {
    throw new OrreryError(
      "recipe_invalid",
      `${JSON.stringify(wanted.checksum)} is not a checksum (sha256: and 64 hex digits).`,
    );
  }
  if (!/^https?:\/\//.test(wanted.url)) throw new OrreryError("recipe_invalid", `${wanted.url} is not an http(s) URL.`);
  await context.dataDir.withParent(wanted.to, async (parent, name) => {
    const temporary = `.${name}.part`;
    if (await hasChecksum(`${parent.fd}/${name}`, wanted.checksum)) {
      await finishFile(parent, name, name, wanted.mode);
      return;
    }
    await fetchPart(parent, temporary, wanted, context);
    await finishFile(parent, temporary, name, wanted.mode);
    await rm(`${parent.fd}/${temporary}.json`, { force: true });
  });
}

async function fetchPart(
  parent: OpenDirectory,
  temporary: string,
  wanted: Download,
  context: DownloadContext,
): Promise<void> {
  const path = `${parent.fd}/${temporary}`;
  const file = await open(path, PART_FLAGS, 0o600);
  try {
    let furthest = (await file.stat()).size;
    for (let fruitless = 0; ; ) {
      try {
        await attempt(file, `${path}.json`, wanted, context);
        await file.sync();
        return;
      } catch (error) {
        context.signal.throwIfAborted();
        if (!isPassing(error)) throw error;
        const { size } = await file.stat();
        fruitless = size > furthest ? 0 : fruitless + 1;
        furthest = Math.max(furthest, size);
        if (fruitless >= FRUITLESS_ATTEMPTS)
          throw isOwn(error) ? error : failed(wanted.url, describe(error), false, error);
        await delay(context.retryMs * 2 ** fruitless, undefined, { signal: context.signal });
      }
    }
  } finally {
    await file.close();
  }
}

/** One request: continues the part when it can, and checks the whole. */
async function attempt(file: FileHandle, notes: string, wanted: Download, context: DownloadContext): Promise<void> {
  const part = await readPart(notes, wanted);
  const have = part === null ? 0 : (await file.stat()).size;
  const response = await request(wanted.url, part, have, context.signal);
  const resumed = response.status === 206 && startsAt(response, have);
  if (!resumed) await file.truncate(0);
  if (!resumed && response.status !== 200) {
    await rm(notes, { force: true });
    throw failed(wanted.url, `HTTP status ${response.status}`, isPassingStatus(response.status));
  }
  await writeFile(
    notes,
    JSON.stringify({ url: wanted.url, checksum: wanted.checksum, validator: validatorOf(response) }),
  );
  const start = resumed ? have : 0;
  const hash = createHash("sha256");
  if (resumed) await hashInto(hash, file, have);
  const size = await append(response, file, start, hash, context);
  const checksum = `sha256:${hash.digest("hex")}`;
  if (checksum === wanted.checksum) return;
  await file.truncate(0);
  await rm(notes, { force: true });
  // What was continued may have been a mixture: it gets one clean try.
  if (resumed) throw failed(wanted.url, "the continued file was not the right one", true);
  throw new OrreryError("checksum_mismatch", `${wanted.url} (${size} bytes) has ${checksum}, not ${wanted.checksum}.`);
}

async function request(url: string, part: Part | null, have: number, signal: AbortSignal): Promise<Response> {
  // Compressed content would make byte offsets meaningless.
  const headers = new Headers({ "accept-encoding": "identity" });
  if (part !== null && have > 0) {
    headers.set("range", `bytes=${have}-`);
    headers.set("if-range", part.validator);
  }
  try {
    return await fetch(url, { headers, signal });
  } catch (error) {
    throw failed(url, describe(error), true, error);
  }
}

async function append(
  response: Response,
  file: FileHandle,
  start: number,
  hash: Hash,
  context: DownloadContext,
): Promise<number> {
  const length = Number(response.headers.get("content-length") ?? 0);
  const total = length > 0 ? start + length : 0;
  let done = start;
  context.onProgress(done, total);
  for await (const chunk of response.body ?? []) {
    hash.update(chunk);
    await writeFully(file, chunk, done);
    done += chunk.length;
    context.onProgress(done, total);
  }
  if (total > 0 && done !== total) throw failed(response.url, `ended after ${done} of ${total} bytes`, true);
  return done;
}

async function writeFully(file: FileHandle, chunk: Uint8Array, position: number): Promise<void> {
  for (let offset = 0; offset < chunk.length; ) {
    offset += (await file.write(chunk, offset, chunk.length - offset, position + offset)).bytesWritten;
  }
}

async function hashInto(hash: Hash, file: FileHandle, length: number): Promise<void> {
  const buffer = Buffer.alloc(1024 * 1024);
  for (let position = 0; position < length; ) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, length - position), position);
    if (bytesRead === 0) throw failed("the partial file", "became shorter", true);
    hash.update(buffer.subarray(0, bytesRead));
    position += bytesRead;
  }
}

async function hasChecksum(path: string, checksum: string): Promise<boolean> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => null);
  if (file === null) return false;
  try {
    const stat = await file.stat();
    if (!stat.isFile()) return false;
    const hash = createHash("sha256");
    await hashInto(hash, file, stat.size);
    return `sha256:${hash.digest("hex")}` === checksum;
  } finally {
    await file.close();
  }
}

async function readPart(notes: string, wanted: Download): Promise<Part | null> {
  try {
    const part = partSchema.parse(JSON.parse(await readFile(notes, "utf8")));
    const same = part.url === wanted.url && part.checksum === wanted.checksum && part.validator !== "";
    return same ? part : null;
  } catch {
    // No notes, or torn ones: the download starts anew.
    return null;
  }
}

/** A strong validator, or nothing: a weak ETag does not promise the same bytes. */
function validatorOf(response: Response): string {
  const etag = response.headers.get("etag");
  if (etag !== null && !etag.startsWith("W/")) return etag;
  return response.headers.get("last-modified") ?? "";
}

function startsAt(response: Response, have: number): boolean {
  return response.headers.get("content-range")?.startsWith(`bytes ${have}-`) === true;
}

function isPassingStatus(status: number): boolean {
  return status >= 500 || status === 408 || status === 416 || status === 425 || status === 429 || status === 206;
}

function failed(url: string, reason: string, passing: boolean, cause?: unknown): OrreryError {
  return new OrreryError("download_failed", `${url}: ${reason}.`, { passing }, { cause });
}

/** Whether another attempt may do better. A connection that breaks in the middle of a body is a plain TypeError. */
function isPassing(error: unknown): boolean {
  return isOwn(error) ? error instanceof OrreryError && error.details.passing === true : error instanceof TypeError;
}

function isOwn(error: unknown): boolean {
  return errorCodeOf(error) === "download_failed";
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}
