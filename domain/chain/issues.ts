import type { z } from "zod";
import { DEFAULTS } from "../defaults.ts";
import { OrreryError } from "../errors.ts";

/** One thing that is wrong with a chain's files. */
export interface ChainIssue {
  /** For example `recipes/full.yaml`. */
  readonly file: string;
  /** For example `steps.0.url`; empty for the file as a whole. */
  readonly path: string;
  /** What stands there, as JSON, shortened. */
  readonly value: string;
  readonly message: string;
}

/** Of a value or a path that is shown. */
const VALUE_LENGTH = 120;

/** The error that carries the issues, both as data and readable; past a number that nobody reads only their count. */
export function chainInvalid(chainId: string, all: readonly ChainIssue[]): OrreryError {
  const issues = all.slice(0, DEFAULTS.api.issuesShown);
  const lines = issues.map(({ file, path, value, message }) => {
    const where = path === "" ? file : `${file}: ${path}`;
    return value === "" ? `${where} ${message}` : `${where} = ${value} ${message}`;
  });
  if (all.length > issues.length) lines.push(`and ${all.length - issues.length} more`);
  return new OrreryError("chain_invalid", `The chain ${chainId} is not valid:\n  ${lines.join("\n  ")}`, { issues });
}

/** The issue with its value shown the way all issues show them. */
export function chainIssue(file: string, path: readonly PropertyKey[], value: unknown, message: string): ChainIssue {
  return { file, path: shortened(path.map(String).join(".")), value: describe(value), message };
}

/** What a schema found in one file; an unknown key is an issue of its own, with its value. */
export function issuesOf(file: string, document: unknown, error: z.ZodError): ChainIssue[] {
  return error.issues.flatMap((issue) => {
    if (issue.code !== "unrecognized_keys") {
      return [chainIssue(file, issue.path, valueAt(document, issue.path), sentence(issue.message))];
    }
    return issue.keys.map((key) => {
      const path = [...issue.path, key];
      return chainIssue(file, path, valueAt(document, path), "is not a key that is known here");
    });
  });
}

function sentence(message: string): string {
  const text = message.replace(/^Invalid input: /, "is wrong: ");
  return text === "Invalid input" ? "is not one of the accepted forms" : text;
}

function valueAt(document: unknown, path: readonly PropertyKey[]): unknown {
  let value = document;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

function describe(value: unknown): string {
  if (value === undefined) return "";
  return shortened(JSON.stringify(value) ?? "");
}

/** Well-formed also where the cut goes through a character. */
function shortened(text: string): string {
  return text.length <= VALUE_LENGTH ? text : `${text.slice(0, VALUE_LENGTH - 3).toWellFormed()}...`;
}
