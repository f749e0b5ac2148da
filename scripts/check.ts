import { glob, readFile } from "node:fs/promises";
import { bundleProblem } from "./bundle.ts";
import { GENERATED } from "./generated.ts";
import { checkFile } from "./import-rules.ts";
import { run } from "./run.ts";

/** `npm run check`: every check that needs no running system, one line each; exits 1 with what failed. */

interface Check {
  readonly name: string;
  /** What is wrong, or null. */
  readonly find: () => Promise<string | null>;
}

const program =
  (command: string, ...args: string[]) =>
  async () => {
    const result = await run(command, args);
    return result.code === 0 ? null : result.output;
  };

const CHECKS: readonly Check[] = [
  { name: "format and lint", find: program("biome", "check", "--error-on-warnings", "--colors=off") },
  { name: "types of the Worker", find: program("tsc", "-p", "tsconfig.worker.json") },
  { name: "types of the programs", find: program("tsc", "-p", "tsconfig.node.json") },
  { name: "types of the tests in workerd", find: program("tsc", "-p", "test/tsconfig.workerd.json") },
  { name: "import rules", find: brokenImportRules },
  { name: "unused code", find: program("knip", "--no-progress", "--treat-config-hints-as-errors") },
  { name: "protocol lint", find: program("buf", "lint") },
  { name: "Worker bundle", find: bundleProblem },
  ...GENERATED.map(({ name, staleness }) => ({ name: `generated: ${name}`, find: staleness })),
];

async function brokenImportRules(): Promise<string | null> {
  const lines: string[] = [];
  for (const file of await sourceFiles()) {
    const violations = checkFile(file, await readFile(file, "utf8"));
    lines.push(...violations.map(({ line, message }) => `${file}:${line} ${message}`));
  }
  return lines.length === 0 ? null : `${lines.join("\n")}\n`;
}

async function sourceFiles(): Promise<string[]> {
  const skipped = (name: string) => name.startsWith(".") || ["node_modules", "dist"].includes(name);
  const files: string[] = [];
  for await (const file of glob("**/*.{ts,tsx,mts,js,mjs,jsx}", { exclude: (name) => skipped(name) })) {
    if (file !== "worker-configuration.d.ts") files.push(file);
  }
  return files.sort();
}

async function main(): Promise<number> {
  const failures: string[] = [];
  for (const { name, find } of CHECKS) {
    const startedAt = performance.now();
    const problem = await find();
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    console.log(`${problem === null ? "ok  " : "FAIL"} ${name.padEnd(34)} ${seconds.padStart(5)} s`);
    if (problem !== null) failures.push(`\n--- ${name}\n${problem.trimEnd()}`);
  }
  for (const failure of failures) console.error(failure);
  if (failures.length > 0) console.error(`\n${failures.length} of ${CHECKS.length} checks failed.`);
  return failures.length === 0 ? 0 : 1;
}

process.exitCode = await main();
