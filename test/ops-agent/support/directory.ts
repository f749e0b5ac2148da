import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** A directory of the running test's own, removed when the test ends. */
export function testDirectory(): string {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "orrery-test-")));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
