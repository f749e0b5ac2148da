import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { errorCodeOf } from "../../../domain/errors.ts";
import { createLog } from "../../../ops-agent/log.ts";
import type { ProcessSpec } from "../../../ops-agent/runtime/adapter.ts";
import { CHAIN_MARK, findByEnvironment, identify, isAlive, killMarked } from "../../../ops-agent/runtime/proc.ts";
import { ProcessAdapter } from "../../../ops-agent/runtime/process.ts";
import { testDirectory } from "../support/directory.ts";

const signal = new AbortController().signal;

interface Bench {
  readonly stateDir: string;
  readonly spec: ProcessSpec;
  /** As an agent that has just started. */
  readonly adapter: () => ProcessAdapter;
  readonly pids: () => number[];
}

function bench(script: string): Bench {
  const [stateDir, dataDir] = [testDirectory(), testDirectory()];
  const program = join(dataDir, "node.sh");
  writeFileSync(program, `#!/bin/sh\n${script}\n`);
  chmodSync(program, 0o755);
  onTestFinished(() => {
    killMarked(CHAIN_MARK, dataDir);
  });
  return {
    stateDir,
    spec: {
      nodeId: "n",
      program,
      args: ["x"],
      env: { NAME: "value" },
      dataDir,
      stopSignal: "SIGTERM",
      stopGraceMs: 5_000,
    },
    adapter: () => new ProcessAdapter({ stateDir, log: createLog("silent", {}), settleMs: 200 }),
    pids: () => findByEnvironment(CHAIN_MARK, dataDir),
  };
}

describe("the process runtime", () => {
  it("starts one process, and no second one from any later agent", async () => {
    const { adapter, spec, pids } = bench("exec sleep 300");
    await adapter().start(spec, signal);
    const first = pids();
    await Promise.all([adapter().start(spec, signal), adapter().start(spec, signal)]);
    expect(first).toHaveLength(1);
    expect(pids()).toEqual(first);
    expect(await adapter().isRunning(spec)).toBe(true);
  });

  it("stops helpers with their leader, and a second stop is a success", async () => {
    const { adapter, spec, pids } = bench("sleep 300 & sleep 300");
    await adapter().start(spec, signal);
    expect(pids()).toHaveLength(3);
    await adapter().stop(spec, 5_000);
    await adapter().stop(spec, 5_000);
    expect(pids()).toEqual([]);
    expect(await adapter().isRunning(spec)).toBe(false);
  });

  it("kills what does not heed its signal within the grace", async () => {
    const { adapter, spec, pids } = bench('trap "" TERM; while true; do sleep 0.05; done');
    await adapter().start(spec, signal);
    await adapter().stop(spec, 100);
    expect(pids()).toEqual([]);
  });

  it.each(["exit 1", "exit 0", "kill -9 $$"])(
    "does not count a program as started that ends at once by `%s`",
    async (script) => {
      const { adapter, spec } = bench(script);
      expect(await adapter().start(spec, signal).catch(errorCodeOf)).toBe("process_start_failed");
    },
  );

  it("does not start what is no program", async () => {
    const { adapter, spec } = bench("true");
    chmodSync(spec.program, 0o644);
    expect(await adapter().start(spec, signal).catch(errorCodeOf)).toBe("process_start_failed");
  });

  it("takes a pid that now means another process for no process of its own", async () => {
    const { adapter, spec, stateDir, pids } = bench("exec sleep 300");
    const stranger = spawn("sleep", ["300"]);
    onTestFinished(() => {
      stranger.kill("SIGKILL");
    });
    await once(stranger, "spawn");
    const identity = identify(stranger.pid ?? 0);
    writeFileSync(join(stateDir, "node.pid"), JSON.stringify({ ...identity, startTicks: 1 }));
    expect(await adapter().isRunning(spec)).toBe(false);
    await adapter().stop(spec, 100);
    expect(identity !== null && isAlive(identity)).toBe(true);
    await adapter().start(spec, signal);
    expect(pids()).not.toContain(stranger.pid);
  });

  it("survives a torn pid note", async () => {
    const { adapter, spec, stateDir, pids } = bench("exec sleep 300");
    await adapter().start(spec, signal);
    const first = pids();
    writeFileSync(join(stateDir, "node.pid"), '{"pid": 1');
    await adapter().start(spec, signal);
    expect(pids()).toEqual(first);
  });

  it("gives the program its own environment, directory, and log, and nothing else", async () => {
    const { adapter, spec, stateDir } = bench("echo $0 $1 $PWD; env; exec sleep 300");
    await adapter().start(spec, signal);
    const log = readFileSync(join(stateDir, "node.log"), "utf8");
    expect(log).toContain(`${spec.program} x ${spec.dataDir}\n`);
    expect(log).toContain("NAME=value\n");
    expect(log).not.toContain("VITEST");
  });
});
