import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, existsSync, mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Recipe, recipeSchema } from "../../../domain/chain/recipe.ts";
import { errorCodeOf } from "../../../domain/errors.ts";
import { DataDir } from "../../../ops-agent/recipe/data-dir.ts";
import { runRecipe, type StepProgress } from "../../../ops-agent/recipe/runner.ts";
import { findByEnvironment, RECIPE_MARK } from "../../../ops-agent/runtime/proc.ts";
import { freePort } from "../support/agent-process.ts";
import { testDirectory } from "../support/directory.ts";

function recipe(steps: readonly object[]): Recipe {
  return recipeSchema.parse({ schema_version: "1.0", chain_profile_id: "c", node_type: "full", steps });
}

function script(text: string, name = "write"): object {
  return { name, type: "write_file", path: "bin/s.sh", mode: "0755", content: `#!/bin/sh\n${text}\n` };
}

const runScript = { name: "run", type: "run", argv: ["bin/s.sh", "{{ .Values.word }}", "a b; $HOME"] };

async function ran(
  root: string,
  steps: readonly object[],
  options: { signal?: AbortSignal; ports?: Record<string, number> } = {},
) {
  const dataDir = await DataDir.open(root);
  const progress: StepProgress[] = [];
  const output = createWriteStream(join(testDirectory(), "recipe.log"));
  const result = await runRecipe(recipe(steps), {
    dataDir,
    scope: { Values: { word: "w" }, Paths: { data: dataDir.path } },
    ports: options.ports ?? {},
    output,
    signal: options.signal ?? new AbortController().signal,
    onProgress: (step) => progress.push(step),
    retryMs: 1,
  }).then(
    (value) => ({ ...value, code: null, message: "" }),
    (error: unknown) => ({ ran: [], skipped: [], code: errorCodeOf(error), message: String(error) }),
  );
  return { ...result, progress };
}

describe("a recipe", () => {
  it("runs its steps in order, leaves out those whose `when` is empty, and gives the same result again", async () => {
    const root = testDirectory();
    const steps = [
      script('echo "$1|$2|$PWD" > result'),
      { ...runScript, when: "{{ .Values.word }}" },
      { ...runScript, name: "not run", when: "{{ .Values.absent }}", argv: ["bin/missing"] },
    ];
    for (let time = 0; time < 2; time += 1) {
      const result = await ran(root, steps);
      expect(result).toMatchObject({ ran: ["write", "run"], skipped: ["not run"], code: null });
      expect(readFileSync(join(root, "result"), "utf8")).toBe(`w|a b; $HOME|${root}\n`);
      expect(result.progress.map(({ stepIndex, stepCount }) => [stepIndex, stepCount])).toEqual([
        [0, 3],
        [1, 3],
      ]);
    }
  });

  it("stops at the step that fails, and names it", async () => {
    const root = testDirectory();
    const after = { name: "after", type: "write_file", path: "after", content: "" };
    const result = await ran(root, [script("exit 3"), runScript, after]);
    expect(result.code).toBe("step_failed");
    expect(result.message).toMatch(/"run".*code 3/);
    expect(existsSync(join(root, "after"))).toBe(false);
  });

  it("gives programs nothing of the agent's environment", async () => {
    const root = testDirectory();
    process.env.ORRERY_TEST_SECRET = "secret";
    onTestFinished(() => {
      delete process.env.ORRERY_TEST_SECRET;
    });
    await ran(root, [script("env > env"), { ...runScript, env: { MINE: "{{ .Values.word }}" } }]);
    const env = readFileSync(join(root, "env"), "utf8");
    expect(env).toContain("MINE=w\n");
    expect(env).not.toContain("secret");
  });

  it("ends a step that takes too long, with all that it started", async () => {
    const root = testDirectory();
    const result = await ran(root, [script("sleep 300 & sleep 300"), { ...runScript, timeout: "300ms" }]);
    expect(result.code).toBe("step_timeout");
    expect(findByEnvironment(RECIPE_MARK, root)).toEqual([]);
  });

  it("does not wait for what a program left in the background, and ends it", async () => {
    const root = testDirectory();
    expect((await ran(root, [script("sleep 300 &"), runScript])).code).toBeNull();
    expect(findByEnvironment(RECIPE_MARK, root)).toEqual([]);
  });

  it("runs no program outside the data directory", async () => {
    const root = testDirectory();
    execFileSync("ln", ["-s", "/bin/sh", join(root, "sh")]);
    expect((await ran(root, [{ ...runScript, argv: ["sh", "-c", "true"] }])).code).toBe("path_outside_data_dir");
    execFileSync("ln", ["-s", "/", join(root, "root")]);
    expect((await ran(root, [script("true"), { ...runScript, cwd: "root" }])).code).toBe("path_outside_data_dir");
  });

  it("names a template that has no value", async () => {
    const step = { name: "s", type: "write_file", path: "f", content: "{{ .Values.absent }}" };
    expect((await ran(testDirectory(), [step])).code).toBe("template_unresolved");
  });

  it("waits for ports and for HTTP answers", async () => {
    const port = await freePort();
    const waiting = ran(
      testDirectory(),
      [
        { name: "port", type: "wait_for_port", port: "rpc" },
        { name: "http", type: "wait_for_http", port: "rpc", path: "/ready", status: 204 },
      ],
      { ports: { rpc: port } },
    );
    let answers = 0;
    const server = createServer((_request, response) => {
      answers += 1;
      response.writeHead(answers < 3 ? 503 : 204).end();
    }).listen(port, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      server.close();
    });
    expect(await waiting).toMatchObject({ ran: ["port", "http"], code: null });
    expect(answers).toBe(3);
  });

  it.each(["wait_for_port", "wait_for_http"])("gives up %s at its timeout", async (type) => {
    const path = type === "wait_for_http" ? { path: "/" } : {};
    const step = { name: "wait", type, port: "rpc", timeout: "100ms", ...path };
    expect((await ran(testDirectory(), [step], { ports: { rpc: await freePort() } })).code).toBe("step_timeout");
  });

  it("says that the disk is full, and leaves no half file", async (context) => {
    const root = join(testDirectory(), "small");
    mkdirSync(root);
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", root], { stdio: "pipe" });
    } catch {
      context.skip("mounting a small file system needs root");
    }
    onTestFinished(() => {
      execFileSync("umount", [root]);
    });
    const steps = Array.from({ length: 5 }, (_, index) => {
      return { name: `fill ${index}`, type: "write_file", path: `f${index}`, content: "x".repeat(30_000) };
    });
    const result = await ran(root, steps);
    expect(result.code).toBe("disk_full");
    expect(execFileSync("ls", ["-A", root], { encoding: "utf8" })).not.toContain(".new");
  });
});
