import { writeFileSync } from "node:fs";
import type { SerializedError } from "vitest";
import type { Reporter, TestModule } from "vitest/node";
import { TOTALS_FILE, type Totals } from "./totals.ts";

/** Writes what a run of vitest came to, for `npm test` to add up; a run that dies before its end writes nothing. */
export default class TotalsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const path = process.env[TOTALS_FILE];
    if (path === undefined) throw new Error(`${TOTALS_FILE} must name the file for the totals`);
    writeFileSync(path, JSON.stringify(totalsOf(modules, unhandledErrors.length)));
  }
}

function totalsOf(modules: readonly TestModule[], unhandledErrors: number): Totals {
  const tests = modules.flatMap((module) => [...module.children.allTests()]);
  const suites = modules.flatMap((module) => [...module.children.allSuites()]);
  // A file that does not load, or a hook that fails, runs none of its tests: it fails as one.
  const broken = [...modules, ...suites].filter((part) => part.errors().length > 0).length;
  const skipped = tests.filter((test) => test.result().state === "skipped");
  const passed = tests.filter((test) => test.result().state === "passed").length;
  return {
    passed,
    // What was still pending when the run ended has not passed.
    failed: tests.length - passed - skipped.length + broken + unhandledErrors,
    skipped: skipped.map((test) => {
      const result = test.result();
      const reason = result.state === "skipped" ? result.note : undefined;
      return { test: `${test.module.relativeModuleId} > ${test.fullName}`, reason: reason ?? null };
    }),
  };
}
