import { writeFileSync } from "node:fs";
import type { SerializedError } from "vitest";
import type { Reporter, TestCase, TestModule, TestSuite } from "vitest/node";
import { TOTALS_FILE, type Totals } from "./totals.ts";

/** Writes what a run of vitest came to, for `npm test` to add up; a run that dies before its end writes nothing. */
export default class TotalsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const path = process.env[TOTALS_FILE];
    if (path === undefined) throw new Error(`${TOTALS_FILE} must name the file for the totals`);
    writeFileSync(path, JSON.stringify(totalsOf(modules, unhandledErrors)));
  }
}

function totalsOf(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): Totals {
  const tests = modules.flatMap((module) => [...module.children.allTests()]);
  const suites = modules.flatMap((module) => [...module.children.allSuites()]);
  const inState = (state: string) => tests.filter((test) => test.result().state === state);
  // What was still pending when the run ended has not passed.
  const failed = tests.filter((test) => !["passed", "skipped"].includes(test.result().state));
  // A file that does not load, or a hook that fails, runs none of its tests: it fails as one.
  const brokenModules = modules.filter((module) => module.errors().length > 0);
  const brokenSuites = suites.filter((suite) => suite.errors().length > 0);
  return {
    passed: inState("passed").length,
    failed: [
      ...failed.map(nameOf),
      ...brokenModules.map((module) => `${module.relativeModuleId} as a whole`),
      ...brokenSuites.map((suite) => `${nameOf(suite)} as a whole`),
      ...unhandledErrors.map(({ message }) => `an error that nobody handled: ${message}`),
    ],
    skipped: inState("skipped").map((test) => {
      const result = test.result();
      const reason = result.state === "skipped" ? result.note : undefined;
      return { test: nameOf(test), reason: reason ?? null };
    }),
  };
}

function nameOf({ module, fullName }: TestCase | TestSuite): string {
  return `${module.relativeModuleId} > ${fullName}`;
}
