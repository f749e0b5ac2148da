import { z } from "zod";

/** The environment variable that tells the reporter where to write the totals. */
export const TOTALS_FILE = "ORRERY_TEST_TOTALS";

const totalsSchema = z.object({
  passed: z.int().min(0),
  failed: z.int().min(0),
  skipped: z.array(z.object({ test: z.string(), reason: z.string().nullable() })),
});
export type Totals = z.output<typeof totalsSchema>;

/** Reads a reporter's totals; a run that left none, or ended badly without a failed test, counts as one failure. */
export function readTotals(text: string | null, exitCode: number): Totals {
  if (text === null) return { passed: 0, failed: 1, skipped: [] };
  const totals = totalsSchema.parse(JSON.parse(text));
  return exitCode !== 0 && totals.failed === 0 ? { ...totals, failed: 1 } : totals;
}

export function addTotals(all: readonly Totals[]): Totals {
  return {
    passed: all.reduce((sum, totals) => sum + totals.passed, 0),
    failed: all.reduce((sum, totals) => sum + totals.failed, 0),
    skipped: all.flatMap((totals) => totals.skipped),
  };
}

/** The report's last lines: why each skipped test was, then the one line of totals. */
export function totalsReport(totals: Totals): string {
  const reasons = totals.skipped.map(({ test, reason }) => `skipped: ${test}: ${reason ?? "no reason given"}\n`);
  return `${reasons.join("")}${totals.passed} passed, ${totals.failed} failed, ${totals.skipped.length} skipped\n`;
}
