import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, cp, mkdir, mkdtemp, readFile, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const repository = new URL("../..", import.meta.url).pathname;

interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A small project that has the repository's bootstrap, a lock file with one package, and an npm that notes its runs. */
let project: string;

beforeEach(async () => {
  project = await mkdtemp(join(tmpdir(), "orrery-bootstrap-"));
  await mkdir(join(project, "scripts"));
  for (const file of ["attached.mjs", "bootstrap.mjs", "install-lock.mjs", "install-state.mjs"]) {
    await cp(join(repository, "scripts", file), join(project, "scripts", file));
  }
  const dependencies = { thing: "1.0.0" };
  const packages = { "": { dependencies }, "node_modules/thing": { version: "1.0.0" } };
  await writeFile(join(project, "package.json"), JSON.stringify({ dependencies }));
  await writeFile(join(project, "package-lock.json"), JSON.stringify({ packages }));
  await mkdir(join(project, "tools"));
  await writeFile(
    join(project, "tools/npm"),
    `#!/bin/sh
echo "$@" >> "${project}/npm-runs"
rm -rf "${project}/node_modules" && mkdir -p "${project}/node_modules/.bin"
ln -s "${process.execPath}" "${project}/node_modules/.bin/node"
cp "${project}/package-lock.json" "${project}/node_modules/.package-lock.json"
`,
  );
  await chmod(join(project, "tools/npm"), 0o755);
});

afterEach(async () => {
  await rm(project, { recursive: true, force: true });
});

function start(...command: string[]) {
  const child = spawn(process.execPath, [join(project, "scripts/bootstrap.mjs"), ...command], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, PATH: `${join(project, "tools")}:${process.env.PATH}` },
  });
  const text = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => {
    text.stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    text.stderr += chunk.toString();
  });
  const ended = new Promise<Outcome>((resolve) => child.on("close", (code) => resolve({ code, ...text })));
  return { child, ended };
}

const bootstrap = (...command: string[]) => start(...command).ended;

async function installs(): Promise<number> {
  const path = join(project, "npm-runs");
  return existsSync(path) ? (await readFile(path, "utf8")).trim().split("\n").length : 0;
}

async function editJson(file: string, edit: (value: Record<string, unknown>) => Record<string, unknown>) {
  const path = join(project, file);
  await writeFile(path, JSON.stringify(edit(JSON.parse(await readFile(path, "utf8")))));
}

describe("what is missing is installed before the command runs", () => {
  test("once, and not again while nothing changed", async () => {
    const first = await bootstrap("node", "-p", "1 + 1");
    expect(first).toMatchObject({ code: 0, stdout: "2\n" });
    expect(first.stderr).toContain("Installing");
    expect(await bootstrap("node", "-p", "1 + 1")).toEqual({ code: 0, stdout: "2\n", stderr: "" });
    expect(await installs()).toBe(1);
  });

  test("again after the lock file changed", async () => {
    await bootstrap("node", "-v");
    await editJson("package-lock.json", (lock) => ({
      ...lock,
      packages: { "": { dependencies: { thing: "1.0.0" } }, "node_modules/thing": { version: "1.0.1" } },
    }));
    expect((await bootstrap("node", "-v")).stderr).toContain("node_modules/thing is not the version");
    expect(await installs()).toBe(2);
  });

  test("again after package.json asked for something else, though the lock file did not follow", async () => {
    await bootstrap("node", "-v");
    await editJson("package.json", () => ({ dependencies: { thing: "1.0.0", other: "2.0.0" } }));
    expect((await bootstrap("node", "-v")).stderr).toContain("package.json and package-lock.json differ");
  });

  test("again when an interrupted install left a directory without npm's record", async () => {
    await bootstrap("node", "-v");
    await rm(join(project, "node_modules/.package-lock.json"));
    await bootstrap("node", "-v");
    expect(await installs()).toBe(2);
  });

  test("not because an optional package of another platform is absent", async () => {
    await bootstrap("node", "-v");
    await editJson("package-lock.json", (lock) => ({
      ...lock,
      packages: {
        "": { dependencies: { thing: "1.0.0" } },
        "node_modules/thing": { version: "1.0.0" },
        "node_modules/thing-darwin": { version: "1.0.0", optional: true },
      },
    }));
    await bootstrap("node", "-v");
    expect(await installs()).toBe(1);
  });

  test("once when two commands start at the same time", async () => {
    const outcomes = await Promise.all([bootstrap("node", "-p", "'a'"), bootstrap("node", "-p", "'b'")]);
    expect(outcomes.map((outcome) => outcome.stdout)).toEqual(["a\n", "b\n"]);
    expect(await installs()).toBe(1);
  });

  test("although a killed install left its lock behind", async () => {
    await mkdir(join(project, ".orrery"));
    const lock = join(project, ".orrery/install.lock");
    await writeFile(lock, "1-1");
    const longAgo = new Date(Date.now() - 60_000);
    await utimes(lock, longAgo, longAgo);
    expect((await bootstrap("node", "-v")).code).toBe(0);
    expect(existsSync(lock)).toBe(false);
  });

  test("and a failed install ends the command with npm's exit code", async () => {
    await writeFile(join(project, "tools/npm"), "#!/bin/sh\nexit 7\n");
    const outcome = await bootstrap("node", "-p", "'ran'");
    expect(outcome).toMatchObject({ code: 7, stdout: "" });
    expect(outcome.stderr).toContain("npm ci failed");
  });
});

describe("the command runs as if it had been called itself", () => {
  beforeEach(async () => {
    await mkdir(join(project, "node_modules/.bin"), { recursive: true });
    await symlink(process.execPath, join(project, "node_modules/.bin/node"));
    await cp(join(project, "package-lock.json"), join(project, "node_modules/.package-lock.json"));
  });

  test("with its arguments, the installed tools first on PATH, and metrics off", async () => {
    const script =
      "console.log(JSON.stringify([process.argv.slice(1), process.env.PATH.split(':')[0], process.env.WRANGLER_SEND_METRICS]))";
    const outcome = await bootstrap("node", "-e", script, "--", "--once", "two words");
    expect(JSON.parse(outcome.stdout)).toEqual([["--once", "two words"], join(project, "node_modules/.bin"), "false"]);
  });

  test("with its exit code", async () => {
    expect((await bootstrap("node", "-e", "process.exit(3)")).code).toBe(3);
  });

  test.each(["SIGINT", "SIGTERM"] as const)("with %s passed on, and time to clean up", async (signal) => {
    const script = `process.on("${signal}", () => { console.log("cleaned"); process.exit(5); }); setInterval(() => {}, 1000); console.log("ready");`;
    const { child, ended } = start("node", "-e", script);
    await new Promise<void>((resolve) => child.stdout.once("data", () => resolve()));
    child.kill(signal);
    expect(await ended).toMatchObject({ code: 5, stdout: "ready\ncleaned\n" });
  });

  test("and a command that a signal ended answers 128 plus its number", async () => {
    expect((await bootstrap("node", "-e", "process.kill(process.pid, 'SIGKILL')")).code).toBe(137);
  });

  test("and an unknown command is named", async () => {
    const outcome = await bootstrap("no-such-command");
    expect(outcome.code).toBe(127);
    expect(outcome.stderr).toContain("no-such-command cannot be started");
  });

  test("and no command at all is a usage error", async () => {
    expect((await bootstrap()).code).toBe(2);
  });
});
