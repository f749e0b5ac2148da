import { readFileSync } from "node:fs";
import { z } from "zod";

export interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** One stage of a Dockerfile: what follows a FROM. */
export interface Stage {
  readonly base: string;
  /** Empty where it has none. */
  readonly name: string;
  readonly instructions: readonly Instruction[];
}

export function readDockerfile(file: string): readonly Stage[] {
  const lines = readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => !line.startsWith("#"))
    .join("\n")
    .replaceAll(/\\\n\s*/g, "")
    .split("\n")
    .filter((line) => line.trim() !== "");
  const stages: { base: string; name: string; instructions: Instruction[] }[] = [];
  for (const line of lines) {
    const [, name = "", text = ""] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
    const [base = "", , stageName = ""] = text.split(/\s+/);
    if (name === "FROM") stages.push({ base, name: stageName, instructions: [] });
    else stages.at(-1)?.instructions.push({ name, text });
  }
  return stages;
}

export interface Copy {
  /** The stage to copy from; null for the build's context. */
  readonly from: string | null;
  readonly sources: readonly string[];
  readonly destination: string;
}

export function readCopy(text: string): Copy {
  const words = text.split(/\s+/);
  const from = /^--from=(.+)$/.exec(words[0] ?? "")?.[1] ?? null;
  const paths = from === null ? words : words.slice(1);
  return { from, sources: paths.slice(0, -1), destination: paths.at(-1) ?? "" };
}

/** `NAME=value NAME=value` */
export function readEnvironment(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(text.split(/\s+/).map((pair) => [pair.split("=")[0], pair.slice(pair.indexOf("=") + 1)]));
}

/** A command in exec form: a JSON array, run without a shell. */
export function readCommand(text: string): readonly [string, ...string[]] {
  return z.tuple([z.string()], z.string()).parse(JSON.parse(text));
}

export function only(stage: Stage | undefined, name: string): string {
  const [found, ...more] = stage?.instructions.filter((instruction) => instruction.name === name) ?? [];
  if (found === undefined || more.length > 0) throw new Error(`The stage has not exactly one ${name}.`);
  return found.text;
}
