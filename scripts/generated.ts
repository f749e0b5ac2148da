import { cp, glob, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { run } from "./run.ts";

/** The generated files of the repository: how each is made, and whether it still is what its source says. */
export interface GeneratedFiles {
  readonly name: string;
  readonly generate: readonly [command: string, ...args: string[]];
  /** What is stale, or null when all is fresh; writes nothing in the repository. */
  readonly staleness: () => Promise<string | null>;
}

const WORKER_TYPES = ["types", "--env-file=.dev.vars.example"] as const;
const SCHEMA = ["generate", "--dialect=postgresql", "--schema=db/schema.ts"] as const;

export const GENERATED: readonly GeneratedFiles[] = [
  { name: "protocol code", generate: ["buf", "generate"], staleness: staleProtocol },
  { name: "worker types", generate: ["wrangler", ...WORKER_TYPES], staleness: staleWorkerTypes },
  { name: "migrations", generate: ["drizzle-kit", "generate"], staleness: staleMigrations },
];

function staleProtocol(): Promise<string | null> {
  return withTemporaryDirectory(async (directory) => {
    const result = await run("buf", ["generate", "-o", directory]);
    if (result.code !== 0) return result.output;
    return differences(join(directory, "proto/gen"), "proto/gen");
  });
}

async function staleWorkerTypes(): Promise<string | null> {
  const result = await run("wrangler", [...WORKER_TYPES, "--check"]);
  return result.code === 0 ? null : result.output;
}

/** Lets drizzle-kit write what is missing into a copy: nothing new means that the migrations lead to the schema. */
function staleMigrations(): Promise<string | null> {
  return withTemporaryDirectory(async (directory) => {
    const copy = join(directory, "migrations");
    await cp("migrations", copy, { recursive: true });
    // drizzle-kit resolves its output against the working directory even when it is absolute.
    const result = await run("drizzle-kit", [...SCHEMA, `--out=${relative(process.cwd(), copy)}`]);
    return result.code === 0 ? differences(copy, "migrations") : result.output;
  });
}

/** The files that are not the same in both directories, one line each; null when there are none. */
export async function differences(fresh: string, committed: string): Promise<string | null> {
  const names = new Set([...(await filesOf(fresh)), ...(await filesOf(committed))]);
  const different: string[] = [];
  for (const name of [...names].sort()) {
    const [left, right] = await Promise.all([contentOf(join(fresh, name)), contentOf(join(committed, name))]);
    if (left === right) continue;
    if (left === null) different.push(`${join(committed, name)} is no longer generated`);
    else different.push(`${join(committed, name)} is ${right === null ? "missing" : "stale"}`);
  }
  return different.length === 0 ? null : `${different.join("\n")}\nRun \`npm run generate\` and commit the result.\n`;
}

async function filesOf(directory: string): Promise<string[]> {
  const names: string[] = [];
  for await (const entry of glob("**", { cwd: directory, withFileTypes: true })) {
    if (entry.isFile()) names.push(relative(directory, join(entry.parentPath, entry.name)));
  }
  return names;
}

async function contentOf(path: string): Promise<string | null> {
  try {
    return await readFile(path, "utf8");
  } catch {
    return null;
  }
}

async function withTemporaryDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), "orrery-generated-"));
  try {
    return await work(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
