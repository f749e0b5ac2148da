import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { errorCodeOf } from "../../../domain/errors.ts";
import { createLog } from "../../../ops-agent/log.ts";
import type { ProcessSpec } from "../../../ops-agent/runtime/adapter.ts";
import { SystemdAdapter, systemctl } from "../../../ops-agent/runtime/systemd.ts";
import { renderUnit, unitName } from "../../../ops-agent/runtime/unit-file.ts";
import { testDirectory } from "../support/directory.ts";

const AWKWARD = [
  'a "b" c',
  "100%",
  "%h",
  "$HOME $\u007bHOME}",
  "back\\slash",
  "new\nExecStart=/bin/false",
  "tab\t",
  "",
  "'",
  ";",
  "é",
];

function specIn(directory: string, args: readonly string[] = AWKWARD): ProcessSpec {
  const dataDir = join(directory, "data dir");
  const program = join(dataDir, "chain node");
  if (!existsSync(program)) {
    mkdirSync(dataDir);
    writeFileSync(program, "#!/bin/sh\n");
    chmodSync(program, 0o755);
  }
  const env = { AWKWARD: AWKWARD.join("|") };
  return { nodeId: "n-1", program, args, env, dataDir, stopSignal: "SIGINT", stopGraceMs: 20_000 };
}

/** A service manager with one unit, which follows the calls; a stubborn one stops only when it is killed. */
class Manager {
  readonly calls: string[] = [];
  isActive = false;
  isStubborn = false;
  failing: string | null = null;

  readonly systemctl = async (...args: readonly string[]) => {
    const call = args.join(" ");
    this.calls.push(call);
    if (this.failing !== null && call.startsWith(this.failing)) return { code: 5, output: "no such unit" };
    if (call.startsWith("enable --now")) this.isActive = true;
    if (call.startsWith("kill --signal=SIGKILL")) this.isActive = false;
    if (call.startsWith("stop") && !this.isStubborn) this.isActive = false;
    return { code: 0, output: this.isActive ? "active\n" : "inactive\n" };
  };
}

function adapterOver(manager: Manager, unitDir: string): SystemdAdapter {
  return new SystemdAdapter({ unitDir, user: null, systemctl: manager.systemctl, log: createLog("silent", {}) });
}

describe("a unit file", () => {
  it("passes systemd-analyze verify with the most awkward arguments", (context) => {
    if (spawnSync("systemd-analyze", ["--version"]).status !== 0)
      context.skip("systemd-analyze is not on this machine");
    const directory = testDirectory();
    const path = join(directory, unitName("n-1"));
    writeFileSync(path, renderUnit(specIn(directory), "root"));
    const result = spawnSync("systemd-analyze", ["verify", "--man=no", path], { encoding: "utf8" });
    const complaints = result.stderr.split("\n").filter((line) => line.includes("orrery-node"));
    expect({ status: result.status, complaints }).toEqual({ status: 0, complaints: [] });
  });

  it("keeps every value inside its directive", () => {
    const directory = testDirectory();
    const lines = (args: readonly string[]) => renderUnit(specIn(directory, args), null).split(/[\n\r]/);
    const clean = lines([]).length;
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "binary" })), (args) => {
        expect(lines(args)).toHaveLength(clean);
        expect(lines(args).join("").replaceAll("%%", "")).not.toContain("%");
      }),
    );
  });

  it("stops the way the chain asks and is confined to its data directory", () => {
    const spec = specIn(testDirectory());
    const text = renderUnit(spec, "orrery");
    for (const line of [
      "User=orrery",
      "KillSignal=SIGINT",
      "KillMode=mixed",
      "TimeoutStopSec=20",
      "ProtectSystem=strict",
    ]) {
      expect(text).toContain(`\n${line}\n`);
    }
    expect(text).toContain(`\nReadWritePaths="${spec.dataDir}"\n`);
  });
});

describe("systemctl", () => {
  it("answers the exit code and what was printed", async (context) => {
    if (spawnSync("systemctl", ["--version"]).status !== 0) context.skip("systemctl is not on this machine");
    expect(await systemctl("--version")).toMatchObject({ code: 0, output: expect.stringContaining("systemd") });
    expect((await systemctl("no-such-verb")).code).not.toBe(0);
  });
});

describe("the systemd runtime", () => {
  it("writes the unit once and reloads only when it changed", async () => {
    const directory = testDirectory();
    const manager = new Manager();
    const adapter = adapterOver(manager, directory);
    await adapter.install(specIn(directory));
    await adapter.install(specIn(directory));
    expect(manager.calls).toEqual(["daemon-reload"]);
    expect(statSync(join(directory, unitName("n-1"))).mode & 0o777).toBe(0o644);
    await adapter.install(specIn(directory, ["--new"]));
    expect(manager.calls).toEqual(["daemon-reload", "daemon-reload"]);
    expect(readFileSync(join(directory, unitName("n-1")), "utf8")).toContain('"--new"');
  });

  it("starts and enables once, stops and disables, and finds both done already", async () => {
    const directory = testDirectory();
    const manager = new Manager();
    const adapter = adapterOver(manager, directory);
    const spec = specIn(directory);
    await adapter.stop(spec, 1_000);
    await adapter.install(spec);
    await adapter.start(spec);
    await adapter.start(spec);
    expect(await adapter.isRunning(spec)).toBe(true);
    expect(manager.calls.filter((call) => call.startsWith("enable"))).toEqual(["enable --now orrery-node-n-1.service"]);
    await adapter.stop(spec, 1_000);
    await adapter.stop(spec, 1_000);
    expect(await adapter.isRunning(spec)).toBe(false);
    expect(manager.calls).toContain("disable orrery-node-n-1.service");
    expect(manager.calls.some((call) => call.startsWith("kill"))).toBe(false);
  });

  it("kills a node that does not stop within its grace", async () => {
    const directory = testDirectory();
    const manager = new Manager();
    const adapter = adapterOver(manager, directory);
    const spec = specIn(directory);
    await adapter.install(spec);
    await adapter.start(spec);
    manager.isStubborn = true;
    await adapter.stop(spec, 1);
    expect(manager.calls).toContain("kill --signal=SIGKILL orrery-node-n-1.service");
    expect(await adapter.isRunning(spec)).toBe(false);
  });

  it("says what the service manager refused", async () => {
    const directory = testDirectory();
    const manager = new Manager();
    manager.failing = "enable";
    const failed = adapterOver(manager, directory).start(specIn(directory));
    await expect(failed).rejects.toThrow(/enable --now .* ended with 5: no such unit/);
    expect(await failed.catch(errorCodeOf)).toBe("process_start_failed");
  });
});
