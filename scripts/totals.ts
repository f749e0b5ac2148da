import { z } from "zod";

/** The environment variable that tells the reporter where to write the totals. */
export const TOTALS_FILE = "ORRERY_TEST_TOTALS";

const totalsSchema = z.object({
  passed: z.int().min(0),
  /** What each failure is of: a test, a hook, a file, or the run itself. */
  failed: z.array(z.string()),
  skipped: z.array(z.object({ test: z.string(), reason: z.string().nullable() })),
});
export type Totals = z.output<typeof totalsSchema>;

/** Reads a reporter's totals; a run that left none, or ended badly without a failed test, counts as one failure. */
export function readTotals(text: string | null, exitCode: number): Totals {
  if (text === null) return { passed: 0, failed: ["a run that told nothing of its tests"], skipped: [] };
  const totals = totalsSchema.parse(JSON.parse(text));
  const endedBadly = exitCode !== 0 && totals.failed.length === 0;
  return endedBadly ? { ...totals, failed: [`a run that ended with exit code ${exitCode}`] } : totals;
}

export function addTotals(all: readonly Totals[]): Totals {
  return {
    passed: all.reduce((sum, totals) => sum + totals.passed, 0),
    failed: all.flatMap((totals) => totals.failed),
    skipped: all.flatMap((totals) => totals.skipped),
  };
}

/** The report's last lines: what failed in whichever layer, why each skipped test was, then the one line of totals. */
export function totalsReport(totals: Totals): string {
  const reasons = totals.skipped.map(({ test, reason }) => `skipped: ${test}: ${reason ?? "no reason given"}\n`);
  const failures = totals.failed.map((failure) => `failed: ${failure}\n`);
  const counts = `${totals.passed} passed, ${totals.failed.length} failed, ${totals.skipped.length} skipped\n`;
  return `${failures.join("")}${reasons.join("")}${counts}`;
}
