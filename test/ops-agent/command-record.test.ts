import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CommandRecord, type Outcome } from "../../ops-agent/state/command-record.ts";
import { testDirectory } from "./support/directory.ts";

const DONE: Outcome = { ok: true, metadata: { steps: "3" } };
const FAILED: Outcome = { ok: false, kind: "FAILED", code: "disk_full", message: "the disk is full: ü" };

function interrupted(outcome: Outcome | null): boolean {
  return outcome !== null && !outcome.ok && outcome.kind === "INTERRUPTED" && outcome.code === "command_interrupted";
}

describe("the command record", () => {
  it("remembers how commands ended over a restart of the agent", () => {
    const directory = testDirectory();
    const record = new CommandRecord(directory);
    record.received("a");
    record.started("a");
    record.ended("a", DONE);
    record.ended("b", FAILED);
    record.received("c");
    record.close();
    const next = new CommandRecord(directory);
    expect([next.outcome("a"), next.outcome("b"), next.outcome("c")]).toEqual([DONE, FAILED, null]);
  });

  it("answers INTERRUPTED for a command that was started and never ended, for ever", () => {
    const directory = testDirectory();
    new CommandRecord(directory).started("a");
    expect(interrupted(new CommandRecord(directory).outcome("a"))).toBe(true);
    expect(interrupted(new CommandRecord(directory).outcome("a"))).toBe(true);
  });

  it("cut off at any byte, keeps every whole line, and can be written on", () => {
    const directory = testDirectory();
    const path = join(directory, "commands.jsonl");
    const record = new CommandRecord(directory);
    for (const id of ["a", "b", "c"]) {
      record.received(id);
      record.started(id);
      record.ended(id, id === "b" ? FAILED : DONE);
    }
    record.close();
    const bytes = readFileSync(path);
    for (let length = 0; length <= bytes.length; length += 1) {
      writeFileSync(path, bytes.subarray(0, length));
      const whole = bytes.subarray(0, length).toString("utf8").split("\n").slice(0, -1);
      const opened = new CommandRecord(directory);
      for (const id of ["a", "b", "c"]) {
        const has = (event: string) => whole.some((line) => line.includes(`"event":"${event}","id":"${id}"`));
        const outcome = opened.outcome(id);
        if (has("ended")) expect(outcome).toEqual(id === "b" ? FAILED : DONE);
        else expect(has("started") ? interrupted(outcome) : outcome === null).toBe(true);
      }
      opened.ended("d", DONE);
      opened.close();
      expect(new CommandRecord(directory).outcome("d")).toEqual(DONE);
    }
  });

  it("takes a tail of noise without a line's end for a torn line", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (noise) => {
        const directory = testDirectory();
        new CommandRecord(directory).ended("a", DONE);
        appendFileSync(
          join(directory, "commands.jsonl"),
          noise.filter((byte) => byte !== 0x0a),
        );
        expect(new CommandRecord(directory).outcome("a")).toEqual(DONE);
      }),
      { numRuns: 50 },
    );
  });

  it("refuses to guess when a whole line is damaged", () => {
    const directory = testDirectory();
    new CommandRecord(directory).ended("a", DONE);
    appendFileSync(join(directory, "commands.jsonl"), "{}\n");
    expect(() => new CommandRecord(directory)).toThrow(/commands.jsonl line 2/);
  });

  it("stays small: only the latest ended commands are kept, and what is running is never dropped", () => {
    const directory = testDirectory();
    const record = new CommandRecord(directory, 10);
    record.started("running");
    for (let index = 0; index < 500; index += 1) record.ended(`c${index}`, DONE);
    expect(record.outcome("c489")).toBeNull();
    expect(record.outcome("c490")).toEqual(DONE);
    expect(statSync(join(directory, "commands.jsonl")).size).toBeLessThan(41 * 100);
    record.close();
    const next = new CommandRecord(directory, 10);
    expect(next.outcome("c499")).toEqual(DONE);
    expect(interrupted(next.outcome("running"))).toBe(true);
  });

  it("survives SIGKILL at random moments of its writing and compaction", async () => {
    const directory = testDirectory();
    for (let round = 0; round < 12; round += 1) {
      const said = await killedWriter(directory, String(round), 3 + ((round * 7) % 40));
      const record = new CommandRecord(directory, 5);
      const last = said.at(-1) ?? "";
      const [event, id = ""] = last.split(" ");
      const outcome = record.outcome(id);
      if (event === "ended") expect(outcome).toEqual({ ok: true, metadata: { id } });
      // The kill fell after the start was on disk: the end may have come after the last word.
      else expect(outcome !== null && (outcome.ok || interrupted(outcome))).toBe(true);
      record.close();
    }
  });
});

/** Runs a writer in a process of its own, kills it after so many lines, and answers the lines that it said. */
async function killedWriter(directory: string, name: string, lines: number): Promise<string[]> {
  const child = spawn(process.execPath, ["test/ops-agent/support/record-writer.ts", directory, name]);
  let said = "";
  child.stdout.on("data", (chunk: Buffer) => {
    said += chunk.toString();
    if (said.split("\n").length > lines) child.kill("SIGKILL");
  });
  await once(child, "close");
  return said.split("\n").slice(0, -1);
}
