import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, it } from "vitest";
import { type DataDir, openDataDir } from "../../dev/data-dir.ts";
import { endHostProcesses } from "../../dev/host-processes.ts";
import { processStat } from "../../dev/process-group.ts";

let path = "";
beforeEach(() => {
  path = mkdtempSync(join(tmpdir(), "orrery-data-dir-"));
});
afterEach(() => rmSync(path, { recursive: true, force: true }));

function runs(pid: number): boolean {
  const stat = processStat(pid);
  return stat !== null && stat.state !== "Z";
}

/** A start that holds the directory, has started a program, and is killed at once. @returns the program's pid */
async function startAndDie(): Promise<number> {
  const script = `
    const { openDataDir } = await import(${JSON.stringify(join(import.meta.dirname, "../../dev/data-dir.ts"))});
    const dir = await openDataDir(${JSON.stringify(path)});
    console.log(dir.start({ name: "program", command: "sleep", args: ["300"] }).pid);
    process.kill(process.pid, "SIGKILL");`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [printed] = await Promise.all([text(child.stdout), once(child, "exit")]);
  return Number(printed);
}

describe("the data directory of a development deployment", () => {
  it("is held by one at a time, also of two that start at once", async ({ expect }) => {
    const starts = await Promise.allSettled([openDataDir(path), openDataDir(path)]);
    const held = starts.flatMap((start): DataDir[] => (start.status === "fulfilled" ? [start.value] : []));
    expect(held).toHaveLength(1);
    await expect(openDataDir(path)).rejects.toThrow(/is in use by process \d+; stop that one first/);
    held[0]?.release();
    (await openDataDir(path)).release();
  });

  it("is free again when its holder was killed, whose programs are ended by the next start", async ({ expect }) => {
    const pid = await startAndDie();
    expect(runs(pid)).toBe(true);
    const next = await openDataDir(path);
    expect(runs(pid)).toBe(false);
    next.release();
  });

  it("has nothing left on its hosts once their processes are ended", async ({ expect }) => {
    const hosts = join(path, "hosts");
    const env = { HOME: join(hosts, "hosts/local-1/data"), PATH: process.env.PATH };
    const child = spawn("sleep", ["300"], { env, detached: true, stdio: "ignore" });
    const exit = once(child, "exit");
    const stranger = spawn("sleep", ["300"], { env: { ...env, HOME: `${hosts}-of-another` }, stdio: "ignore" });
    await endHostProcesses(hosts);
    expect((await exit)[1]).toBe("SIGKILL");
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
    stranger.kill("SIGKILL");
  });
});
