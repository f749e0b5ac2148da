import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { requireNoProcesses } from "../../dev/leftovers.ts";
import { type StackOptions, startStack } from "../../dev/stack.ts";

const STEPS = ["start the host runner", "build the Worker", "start the Worker", "push the chains"];
/** What ending the programs may take; far less than starting them. */
const PROMPT_MS = 15_000;

describe("a development deployment", () => {
  let dataDir = "";
  beforeAll(() => {
    dataDir = mkdtempSync(join(tmpdir(), "orrery-e2e-"));
  });
  afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

  const options = (): StackOptions => ({
    repoDir: join(import.meta.dirname, "../.."),
    dataDir,
    watch: false,
    cronEveryMs: null,
  });

  it.for(STEPS)(
    "that is interrupted at the step to %s stops promptly and leaves no process",
    async (at, { expect }) => {
      const controller = new AbortController();
      const reason = new Error("interrupted by the test");
      let interruptedAt = 0;
      const start = startStack({
        ...options(),
        signal: controller.signal,
        onStep: (label, work) => {
          const result = work();
          if (label === at) {
            interruptedAt = performance.now();
            controller.abort(reason);
          }
          return result;
        },
      });
      await expect(start).rejects.toBe(reason);
      expect(performance.now() - interruptedAt).toBeLessThan(PROMPT_MS);
      requireNoProcesses(dataDir);
    },
  );

  it("says when a part of it has ended by itself, and still stops whole", async ({ expect }) => {
    const stack = await startStack(options());
    process.kill(stack.worker.process.pid, "SIGKILL");
    expect((await stack.broken).message).toMatch(/^The worker has ended \(SIGKILL\); see .*worker\.log\.$/);
    await stack.stop();
    requireNoProcesses(dataDir);
  });
});
