import { glob, readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { Failure } from "./failure.ts";

/** A chain's files by their path in its directory. */
export interface ChainFiles {
  readonly chain: string;
  readonly files: Readonly<Record<string, string>>;
}

/** Reads every YAML file of a chain's directory; the directory's name is the chain's id. */
export async function readChainFiles(dir: string): Promise<ChainFiles> {
  const files: Record<string, string> = {};
  for await (const name of glob("**/*.{yaml,yml}", { cwd: dir })) files[name] = await readFile(join(dir, name), "utf8");
  if (Object.keys(files).length === 0) {
    throw new Failure({
      code: "chain_files_missing",
      message: `There are no YAML files in ${dir}.`,
      advice: "Name the directory that holds the chain's profile.yaml, runtime.yaml and recipes/.",
    });
  }
  return { chain: basename(resolve(dir)), files };
}
