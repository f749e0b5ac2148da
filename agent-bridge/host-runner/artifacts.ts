import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { z } from "zod";
import { RunnerError } from "./errors.ts";

const ARTIFACT_PATH = /^\/artifacts\/anvil\/(?<version>[0-9.]+)\/anvil-linux-(?<arch>x64|arm64)$/;
const PACKAGES: Readonly<Record<string, string>> = {
  x64: "@foundry-rs/anvil-linux-amd64",
  arm64: "@foundry-rs/anvil-linux-arm64",
};
const require = createRequire(import.meta.url);
const etags = new Map<string, Promise<string>>();

/**
 * Serves the binary of an installed npm package as an artifact server would: with an ETag over its bytes, and single
 * byte ranges so that an interrupted download goes on where it stopped (RFC 9110, sections 13 and 14).
 */
export async function serveArtifact(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const file = await locate(path);
  const { size } = await stat(file);
  const etag = await etagOf(file);
  response.setHeader("ETag", etag);
  response.setHeader("Accept-Ranges", "bytes");
  response.setHeader("Content-Type", "application/octet-stream");
  if (request.headers["if-none-match"] === etag) {
    response.writeHead(304).end();
    return;
  }
  const ifRange = request.headers["if-range"];
  const wanted = ifRange === undefined || ifRange === etag ? request.headers.range : undefined;
  const range = wanted === undefined ? null : parseRange(wanted, size);
  if (range === "unsatisfiable") {
    response.writeHead(416, { "Content-Range": `bytes */${size}` }).end();
    return;
  }
  const { start, end } = range ?? { start: 0, end: size - 1 };
  response.writeHead(range === null ? 200 : 206, {
    "Content-Length": end - start + 1,
    ...(range === null ? {} : { "Content-Range": `bytes ${start}-${end}/${size}` }),
  });
  if (request.method === "HEAD") {
    response.end();
    return;
  }
  await pipeline(createReadStream(file, { start, end }), response);
}

async function locate(path: string): Promise<string> {
  const { version, arch } = ARTIFACT_PATH.exec(path)?.groups ?? {};
  const name = arch === undefined ? undefined : PACKAGES[arch];
  const manifest = name === undefined ? null : resolveManifest(name);
  if (manifest === null) throw new RunnerError("not_found", `There is no artifact ${path}.`);
  const installed = z.object({ version: z.string() }).parse(JSON.parse(await readFile(manifest, "utf8")));
  if (installed.version !== version) {
    throw new RunnerError("not_found", `Version ${version} is not installed; ${installed.version} is.`);
  }
  return join(dirname(manifest), "bin", "anvil");
}

function resolveManifest(name: string): string | null {
  try {
    return require.resolve(`${name}/package.json`);
  } catch {
    // npm installs the package of this machine's own architecture only.
    return null;
  }
}

function etagOf(file: string): Promise<string> {
  const known = etags.get(file);
  if (known !== undefined) return known;
  const computed = hashFile(file);
  etags.set(file, computed);
  return computed;
}

async function hashFile(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk);
  return `"${hash.digest("hex")}"`;
}

/** The one range of a Range header; null for what is to be ignored (several ranges, other units, nonsense). */
export function parseRange(header: string, size: number): { start: number; end: number } | "unsatisfiable" | null {
  const match = /^bytes=(?<first>\d*)-(?<last>\d*)$/.exec(header)?.groups;
  const first = match?.first ?? "";
  const last = match?.last ?? "";
  if (first === "" && last === "") return null;
  if (first === "") {
    const length = Math.min(Number(last), size);
    return length === 0 ? "unsatisfiable" : { start: size - length, end: size - 1 };
  }
  const start = Number(first);
  const end = last === "" ? size - 1 : Math.min(Number(last), size - 1);
  if (start >= size) return "unsatisfiable";
  return end < start ? null : { start, end };
}
