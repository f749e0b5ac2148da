import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";

const lockSchema = z.object({
  packages: z.record(z.string(), z.object({ integrity: z.string().optional(), dev: z.boolean().optional() })),
});
const KEY = "make-fetch-happen:request-cache:";

/**
 * Gives a new npm cache what this machine's has of the packages that the lock file names, so that an install by another
 * user needs no network for them. What is not there npm asks its registry for.
 */
export function seedNpmCache(cache: string): void {
  const known = join(process.env.npm_config_cache ?? join(homedir(), ".npm"), "_cacache");
  const copy = (path: string) => {
    if (!existsSync(join(known, path))) return false;
    const target = join(cache, "_cacache", path);
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(join(known, path), target);
    return true;
  };
  const registry = execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8" }).trim();
  const { packages } = lockSchema.parse(JSON.parse(readFileSync("package-lock.json", "utf8")));
  for (const [path, { integrity = "", dev }] of Object.entries(packages)) {
    if (dev === true || integrity === "") continue;
    copy(contentPath(integrity));
    // Beside the package itself npm reads what the registry says of it.
    const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
    const index = indexPath(KEY + registry + name.replace("/", "%2f"));
    if (copy(index)) for (const of of integritiesIn(readFileSync(join(known, index), "utf8"))) copy(contentPath(of));
  }
}

function contentPath(integrity: string): string {
  const [algorithm = "", digest = ""] = integrity.split("-");
  return join("content-v2", algorithm, ...split(Buffer.from(digest, "base64").toString("hex")));
}

function indexPath(key: string): string {
  return join("index-v5", ...split(createHash("sha256").update(key).digest("hex")));
}

function split(hex: string): [string, string, string] {
  return [hex.slice(0, 2), hex.slice(2, 4), hex.slice(4)];
}

function integritiesIn(index: string): string[] {
  return [...index.matchAll(/"integrity":"([^"]+)"/g)].map(([, integrity = ""]) => integrity);
}
