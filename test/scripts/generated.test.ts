import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { differences } from "../../scripts/generated.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "orrery-generated-test-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

async function write(files: Readonly<Record<string, string>>) {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), text);
  }
}

const compare = () => differences(join(directory, "fresh"), join(directory, "committed"));

test("generated files that are what their source says are no problem", async () => {
  await write({ "fresh/a/b.js": "1", "committed/a/b.js": "1" });
  expect(await compare()).toBeNull();
});

test("each stale, missing or left-over file is named, and how to mend it", async () => {
  await write({ "fresh/a/b.js": "1", "committed/a/b.js": "2", "fresh/new.js": "", "committed/old.js": "" });
  const committed = join(directory, "committed");
  expect(await compare()).toBe(
    `${committed}/a/b.js is stale\n${committed}/new.js is missing\n${committed}/old.js is no longer generated\n` +
      "Run `npm run generate` and commit the result.\n",
  );
});
