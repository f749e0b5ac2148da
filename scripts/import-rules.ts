import { dirname, join } from "node:path/posix";
import { parseSync, Visitor } from "oxc-parser";

/** Who may import whom (the design's section "The house"), and what the pure rules may touch. */

export interface Violation {
  /** Path from the repository's root. */
  readonly file: string;
  readonly line: number;
  readonly message: string;
}

interface FolderRule {
  /** Folders, or parts of them, that may be imported besides the folder itself. */
  readonly imports: readonly string[];
  /** The only packages that may be imported; any when absent. */
  readonly packages?: readonly string[];
}

const OUTSIDE_PRODUCT = ["scripts", "test", "dev", "sandbox", "bench"];
const PRODUCT = [
  "domain",
  "db",
  "integrations",
  "durable-objects",
  "workers",
  "agent-bridge",
  "ops-agent",
  "cli",
  "console",
  "proto",
];

const FOLDERS: Readonly<Record<string, FolderRule>> = {
  domain: { imports: [], packages: ["@noble/curves", "@noble/hashes", "yaml", "zod"] },
  proto: { imports: [] },
  db: { imports: ["domain"] },
  integrations: { imports: ["domain"] },
  "durable-objects": { imports: ["domain", "db", "integrations", "proto"] },
  workers: { imports: ["domain", "db", "integrations", "proto", "durable-objects"] },
  "agent-bridge": { imports: ["domain", "proto"] },
  "ops-agent": { imports: ["domain", "proto"] },
  // The command line knows the system by its HTTP API; only the check of chain files runs on the author's machine.
  cli: { imports: ["domain/chain"] },
  console: { imports: [] },
  sandbox: { imports: ["domain", "proto"] },
  dev: { imports: [...PRODUCT, "sandbox"] },
  bench: { imports: [...PRODUCT, "dev"] },
  scripts: { imports: [...PRODUCT, "dev"] },
  test: { imports: [...PRODUCT, ...OUTSIDE_PRODUCT, ""] },
  // Configuration files at the root.
  "": { imports: ["test"] },
};

/** Folders whose code runs inside workerd; nobody else can import the runtime's modules. */
const WORKERD_FOLDERS = ["workers", "durable-objects", "test"];

/** The clock, chance and I/O: rules get their results as parameters. */
const IMPURE_MEMBERS = [
  "Date.now",
  "performance.now",
  "Math.random",
  "crypto.randomUUID",
  "crypto.getRandomValues",
  "globalThis.fetch",
];
const IMPURE_CALLS = ["fetch", "setTimeout", "setInterval", "setImmediate", "queueMicrotask"];
const IMPURE_OBJECTS = ["console", "process"];

/** Reads one source file and answers each import, and each use of clock or I/O in `domain`, that the rules forbid. */
export function checkFile(file: string, source: string): Violation[] {
  const folder = file.includes("/") ? file.slice(0, file.indexOf("/")) : "";
  const at = (offset: number, message: string): Violation => ({
    file,
    line: source.slice(0, offset).split("\n").length,
    message,
  });
  const rule = FOLDERS[folder];
  if (rule === undefined)
    return [at(0, `no import rule for the folder ${folder}/; add one to scripts/import-rules.ts`)];

  const parsed = parseSync(file, source);
  const [broken] = parsed.errors;
  if (broken !== undefined) return [at(broken.labels[0]?.start ?? 0, `cannot be parsed: ${broken.message}`)];

  const found: Violation[] = [];
  const inspect = (specifier: unknown, offset: number) => {
    const problem = importProblem(file, folder, rule, specifier);
    if (problem !== null) found.push(at(offset, problem));
  };
  new Visitor({
    ImportDeclaration: (node) => inspect(node.source.value, node.start),
    ExportAllDeclaration: (node) => inspect(node.source.value, node.start),
    ExportNamedDeclaration: (node) => node.source !== null && inspect(node.source.value, node.start),
    ImportExpression: (node) => inspect(node.source.type === "Literal" ? node.source.value : null, node.start),
    TSImportType: (node) => inspect(node.source.value, node.start),
  }).visit(parsed.program);
  if (folder === "domain") for (const use of impureUses(parsed.program)) found.push(at(use.offset, use.message));
  return found;
}

function importProblem(file: string, folder: string, rule: FolderRule, specifier: unknown): string | null {
  if (typeof specifier !== "string") {
    return PRODUCT.includes(folder) ? "imports a computed name, which no rule can check" : null;
  }
  if (specifier.startsWith(".")) return fileProblem(file, folder, rule, specifier);
  if (specifier.startsWith("/") || specifier.startsWith("file:")) return `imports the absolute path ${specifier}`;
  if (specifier.startsWith("cloudflare:")) {
    return WORKERD_FOLDERS.includes(folder)
      ? null
      : `${folder}/ may not import ${specifier}: it does not run in workerd`;
  }
  return packageProblem(folder, rule, specifier);
}

function fileProblem(file: string, folder: string, rule: FolderRule, specifier: string): string | null {
  const target = join(dirname(file), specifier);
  if (target.startsWith("../")) return `imports ${specifier}, which is outside the repository`;
  const targetFolder = target.includes("/") ? target.slice(0, target.indexOf("/")) : "";
  if (targetFolder === folder) return null;
  const allowed = rule.imports.some(
    (entry) => target === entry || target.startsWith(`${entry}/`) || targetFolder === entry,
  );
  return allowed ? null : `${folder === "" ? "the root" : `${folder}/`} may not import ${target}`;
}

function packageProblem(folder: string, rule: FolderRule, specifier: string): string | null {
  if (rule.packages === undefined) return null;
  const name = specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
  return rule.packages.includes(name)
    ? null
    : `${folder}/ may not import ${specifier}: only ${rule.packages.join(", ")} and itself`;
}

interface ImpureUse {
  readonly offset: number;
  readonly message: string;
}

function impureUses(program: Parameters<Visitor["visit"]>[0]): ImpureUse[] {
  const uses: ImpureUse[] = [];
  const report = (offset: number, name: string) =>
    uses.push({ offset, message: `domain/ may not use ${name}: time, chance and I/O are parameters of a rule` });
  new Visitor({
    MemberExpression: (node) => {
      if (node.object.type !== "Identifier" || node.property.type !== "Identifier") return;
      const name = `${node.object.name}.${node.property.name}`;
      if (IMPURE_MEMBERS.includes(name) || IMPURE_OBJECTS.includes(node.object.name)) report(node.start, name);
    },
    NewExpression: (node) => {
      if (node.callee.type !== "Identifier" || node.callee.name !== "Date") return;
      if (node.arguments.length === 0) report(node.start, "new Date()");
    },
    CallExpression: (node) => {
      if (node.callee.type === "Identifier" && IMPURE_CALLS.includes(node.callee.name)) {
        report(node.start, `${node.callee.name}()`);
      }
    },
  }).visit(program);
  return uses;
}
