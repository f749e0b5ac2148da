import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { run } from "../../scripts/run.ts";

const repository = new URL("../..", import.meta.url).pathname;

/** A small suite of its own inside the repository, so that it finds the installed vitest. */
let suite: string;

beforeEach(async () => {
  await mkdir(join(repository, ".orrery"), { recursive: true });
  suite = await mkdtemp(join(repository, ".orrery/suite-"));
  await writeFile(join(suite, "vitest.config.ts"), 'export default { test: { include: ["*.test.ts"] } };\n');
});

afterEach(async () => {
  await rm(suite, { recursive: true, force: true });
});

async function runSuite(files: Readonly<Record<string, string>>) {
  for (const [name, body] of Object.entries(files)) {
    await writeFile(join(suite, name), `import { beforeAll, describe, expect, test } from "vitest";\n${body}\n`);
  }
  const script = `import { runTests } from "${repository}scripts/run-tests.ts";
    process.exitCode = await runTests([["--root=${suite}"]]);`;
  const { code, output } = await run(process.execPath, ["--input-type=module", "-e", script]);
  const lines = output.trimEnd().split("\n");
  return { code, last: lines.at(-1), lines };
}

describe("the last line holds the true totals", () => {
  test("of passed, failed and skipped tests, with the name of each failed and the reason of each skipped one", async () => {
    const { code, last, lines } = await runSuite({
      "a.test.ts": `
        test("right", () => {});
        test("wrong", () => expect(1).toBe(2));
        test("absent", ({ skip }) => skip("no systemd here"));
        test.todo("later");`,
    });
    expect(last).toBe("1 passed, 1 failed, 2 skipped");
    expect(lines).toContain("failed: a.test.ts > wrong");
    expect(lines).toContain("skipped: a.test.ts > absent: no systemd here");
    expect(lines).toContain("skipped: a.test.ts > later: no reason given");
    expect(code).toBe(1);
  });

  test("and all is well only when nothing failed", async () => {
    expect(await runSuite({ "a.test.ts": `test("right", () => {});` })).toMatchObject({
      code: 0,
      last: "1 passed, 0 failed, 0 skipped",
    });
  });

  test.each([
    [
      "a file that does not load",
      `throw new Error("broken file");`,
      "1 passed, 1 failed, 0 skipped",
      "z.test.ts as a whole",
    ],
    [
      "a hook that fails",
      `describe("s", () => { beforeAll(() => { throw new Error("hook"); }); test("never", () => {}); });`,
      "1 passed, 1 failed, 1 skipped",
      "z.test.ts > s as a whole",
    ],
    [
      "an error that nobody handled",
      `test("leaky", async () => { Promise.reject(new Error("leak")); await new Promise((go) => setTimeout(go, 50)); });`,
      "2 passed, 1 failed, 0 skipped",
      "an error that nobody handled: leak",
    ],
  ])("%s counts as a failure, and is named", async (_, body, totals, failure) => {
    const outcome = await runSuite({ "good.test.ts": `test("right", () => {});`, "z.test.ts": body });
    expect(outcome).toMatchObject({ code: 1, last: totals });
    expect(outcome.lines).toContain(`failed: ${failure}`);
  });

  test("a run that cannot start counts as a failure", async () => {
    await writeFile(join(suite, "vitest.config.ts"), "throw new Error('no config');");
    expect(await runSuite({})).toMatchObject({ code: 1, last: "0 passed, 1 failed, 0 skipped" });
  });

  test("a run that finds no test at all counts as a failure", async () => {
    expect(await runSuite({})).toMatchObject({ code: 1, last: "0 passed, 1 failed, 0 skipped" });
  });
});
