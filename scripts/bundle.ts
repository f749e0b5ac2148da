import { glob, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { run } from "./run.ts";

/** A large script starts slowly: the platform gives it one second. */
const MAX_GZIP_BYTES = 1024 * 1024;

/** Builds the Worker as a deployment would. @returns why it cannot be deployed, or null */
export async function bundleProblem(): Promise<string | null> {
  const directory = await mkdtemp(join(tmpdir(), "orrery-bundle-"));
  try {
    const result = await run("wrangler", ["deploy", "--dry-run", `--outdir=${directory}`]);
    if (result.code !== 0) return result.output;
    const bytes = await gzipBytes(directory);
    return bytes <= MAX_GZIP_BYTES ? null : `The Worker has ${bytes} bytes gzipped, more than ${MAX_GZIP_BYTES}.`;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function gzipBytes(directory: string): Promise<number> {
  let bytes = 0;
  for await (const name of glob("**/*.{js,wasm,sql,txt}", { cwd: directory })) {
    bytes += gzipSync(await readFile(join(directory, name))).byteLength;
  }
  return bytes;
}
