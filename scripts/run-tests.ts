import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runAttached } from "./attached.mjs";
import { addTotals, readTotals, TOTALS_FILE, type Totals, totalsReport } from "./totals.ts";

const TOTALS_REPORTER = fileURLToPath(new URL("totals-reporter.ts", import.meta.url));

/**
 * Runs vitest once per list of arguments, one after the other, and ends with one line of totals.
 * @returns the exit code: 0 when nothing failed
 */
export async function runTests(runs: readonly (readonly string[])[]): Promise<number> {
  const directory = await mkdtemp(join(tmpdir(), "orrery-tests-"));
  try {
    const totals: Totals[] = [];
    for (const [index, args] of runs.entries()) totals.push(await runVitest(args, join(directory, `${index}.json`)));
    const sum = addTotals(totals);
    process.stdout.write(`\n${totalsReport(sum)}`);
    return sum.failed.length === 0 ? 0 : 1;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function runVitest(args: readonly string[], totalsFile: string): Promise<Totals> {
  const reporters = ["--reporter=default", `--reporter=${TOTALS_REPORTER}`];
  const env = { ...process.env, [TOTALS_FILE]: totalsFile };
  const code = await runAttached("vitest", ["run", ...reporters, ...args], { env });
  return readTotals(await readFile(totalsFile, "utf8").catch(() => null), code);
}
