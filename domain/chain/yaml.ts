import { parseDocument } from "yaml";
import { DEFAULTS } from "../defaults.ts";
import { type ChainIssue, chainIssue } from "./issues.ts";

export type YamlDocument =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly issues: readonly ChainIssue[] };

/** Deeper than any chain file is; a document that holds itself through an alias is endlessly deep. */
const MAX_DEPTH = 64;

/**
 * YAML 1.2 core without surprises: no custom tags, no duplicate keys, no alias bombs, no documents that hold themselves,
 * no files that break a frame, and no text that JSON or Postgres cannot keep.
 */
export function readYaml(file: string, text: string): YamlDocument {
  const bytes = new TextEncoder().encode(text).length;
  if (bytes > DEFAULTS.chain.fileBytes) {
    return wrong(file, [], `is ${bytes} bytes long; the limit is ${DEFAULTS.chain.fileBytes}`);
  }
  if (!text.isWellFormed()) return wrong(file, [], "holds half of a surrogate pair, which is not a character");
  try {
    const document = parseDocument(text, { schema: "core", uniqueKeys: true, prettyErrors: true });
    const problems = [...document.errors, ...document.warnings];
    if (problems.length > 0) {
      const issues = problems.map(({ message }) => chainIssue(file, [], undefined, `is not valid YAML: ${message}`));
      return { ok: false, issues };
    }
    const value: unknown = document.toJS({ maxAliasCount: 50 });
    const unfit = findUnfit(value, []);
    return unfit === null ? { ok: true, value } : wrong(file, unfit.path, unfit.message);
  } catch (error) {
    // The parser throws on alias bombs and on nesting deeper than the stack.
    return wrong(file, [], `cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

interface Unfit {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** The first thing in a document that no schema should be shown. */
function findUnfit(value: unknown, path: readonly PropertyKey[]): Unfit | null {
  if (typeof value === "string") return unfitText(value, path);
  if (typeof value !== "object" || value === null) return null;
  if (path.length >= MAX_DEPTH) {
    return { path: path.slice(0, 4), message: `is nested deeper than ${MAX_DEPTH} levels, or holds itself` };
  }
  for (const [key, inner] of Object.entries(value)) {
    const at = [...path, key];
    // Validation leaves it out without a word.
    if (key === "__proto__") return { path: at, message: "is not a name that can be used" };
    const unfit = unfitText(key, path) ?? findUnfit(inner, at);
    if (unfit !== null) return unfit;
  }
  return null;
}

function unfitText(text: string, path: readonly PropertyKey[]): Unfit | null {
  if (text.includes("\0")) return { path, message: "holds a NUL character" };
  if (!text.isWellFormed()) return { path, message: "holds half of a surrogate pair, which is not a character" };
  return null;
}

function wrong(file: string, path: readonly PropertyKey[], message: string): YamlDocument {
  return { ok: false, issues: [chainIssue(file, path, undefined, message)] };
}
