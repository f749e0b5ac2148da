import { create, fromBinary } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { OrreryError } from "../../domain/errors.ts";
import { CommandExecutor } from "../../ops-agent/commands/executor.ts";
import type { CommandContext } from "../../ops-agent/commands/handlers.ts";
import { createLog } from "../../ops-agent/log.ts";
import type { AgentBodyInit } from "../../ops-agent/session/messages.ts";
import { CommandRecord } from "../../ops-agent/state/command-record.ts";
import { CommandSchema, CommandType, FailureKind } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { testDirectory } from "./support/directory.ts";

interface Started {
  readonly id: string;
  readonly context: CommandContext;
  readonly finish: (metadata?: Record<string, string>) => void;
  readonly fail: (error: unknown) => void;
}

/** An executor whose commands last until the test ends them. */
class Bench {
  readonly sent: AgentBodyInit[] = [];
  readonly started: Started[] = [];
  readonly executor: CommandExecutor;
  now = 0;

  constructor(directory: string) {
    this.executor = new CommandExecutor({
      record: new CommandRecord(directory),
      interpret: (command) => {
        if (command.type === CommandType.UPGRADE || CommandType[command.type] === undefined) return null;
        return (context) => {
          const { promise, resolve, reject } = Promise.withResolvers<Record<string, string>>();
          context.signal.addEventListener("abort", () => reject(context.signal.reason));
          this.started.push({ id: command.id, context, finish: (metadata = {}) => resolve(metadata), fail: reject });
          return promise;
        };
      },
      send: (message) => this.sent.push(message),
      log: createLog("silent", {}),
      now: () => this.now,
      stallCheckMs: 30_000,
    });
  }

  receive(id: string, type: CommandType = CommandType.START, ttlMs = 60_000): void {
    this.executor.receive(create(CommandSchema, { id, type, remainingTtlMs: BigInt(ttlMs) }));
  }

  /** Everything that was said of a command, in short. */
  said(id: string): string[] {
    return this.sent.flatMap(({ body }) => {
      if (body?.case === "commandAcknowledged" && body.value.commandId === id) return ["acknowledged"];
      if (body?.case === "commandCompleted" && body.value.commandId === id) return ["completed"];
      if (body?.case !== "commandFailed" || body.value.commandId !== id) return [];
      return [`${FailureKind[body.value.kind ?? 0]} ${body.value.code}`];
    });
  }

  async finish(id: string): Promise<void> {
    this.started.find((started) => started.id === id)?.finish();
    await vi.advanceTimersByTimeAsync(0);
  }
}

let directory: string;
let bench: Bench;

beforeEach(() => {
  vi.useFakeTimers();
  directory = testDirectory();
  bench = new Bench(directory);
});
afterEach(() => vi.useRealTimers());

describe("commands", () => {
  it("run one at a time, in the order of their receipt", async () => {
    const ids = Array.from({ length: 200 }, (_, index) => `c${index}`);
    for (const id of ids) bench.receive(id);
    for (const id of ids) {
      expect(bench.executor.runningIds()).toEqual([id]);
      await bench.finish(id);
    }
    expect(bench.started.map(({ id }) => id)).toEqual(ids);
    expect(bench.executor.runningIds()).toEqual([]);
  });

  it("are acknowledged again while they run and answered from the record when they have ended", async () => {
    bench.receive("a");
    bench.receive("a");
    await bench.finish("a");
    bench.receive("a");
    expect(bench.said("a")).toEqual(["acknowledged", "acknowledged", "completed", "completed"]);
    expect(bench.started).toHaveLength(1);
    const next = new Bench(directory);
    next.receive("a");
    expect(next.said("a")).toEqual(["completed"]);
    expect(next.started).toHaveLength(0);
  });

  it("that a crash cut off are reported as interrupted and never run again", () => {
    bench.receive("a");
    bench.receive("b");
    const next = new Bench(directory);
    next.receive("a");
    next.receive("b");
    expect(next.said("a")).toEqual(["INTERRUPTED command_interrupted"]);
    expect(next.started.map(({ id }) => id)).toEqual(["b"]);
  });

  it("fail with the code of their error, and with a plain one for what carries none", async () => {
    bench.receive("a");
    bench.receive("b");
    bench.started[0]?.fail(new OrreryError("checksum_mismatch", "wrong"));
    await vi.advanceTimersByTimeAsync(0);
    bench.started[1]?.fail(new Error("/root/secret"));
    await vi.advanceTimersByTimeAsync(0);
    expect(bench.said("a").at(-1)).toBe("FAILED checksum_mismatch");
    expect(bench.said("b").at(-1)).toBe("FAILED command_failed");
    expect(JSON.stringify(bench.sent.at(-1))).not.toContain("/root/secret");
  });

  it("of an unknown type are refused by name", () => {
    bench.receive("a", CommandType.UPGRADE);
    // A later protocol's command: id "b", type 4711.
    bench.executor.receive(fromBinary(CommandSchema, Uint8Array.from([0x0a, 1, 0x62, 0x10, 0xe7, 0x24])));
    expect(bench.said("a")).toEqual(["REFUSED command_refused"]);
    expect(JSON.stringify(bench.sent)).toMatch(/UPGRADE.*number 4711/);
  });

  it("past their time to live, by our own clock from receipt, are never started", async () => {
    bench.receive("slow");
    bench.receive("late", CommandType.START, 5_000);
    bench.receive("in time", CommandType.START, 5_001);
    bench.receive("never", CommandType.START, 0);
    bench.now = 5_000;
    await bench.finish("slow");
    expect(bench.said("late")).toEqual(["acknowledged", "EXPIRED command_expired"]);
    await bench.finish("in time");
    expect(bench.said("in time").at(-1)).toBe("completed");
    expect(bench.said("never").at(-1)).toBe("EXPIRED command_expired");
    expect(bench.started.map(({ id }) => id)).toEqual(["slow", "in time"]);
  });

  it("cancelled while they wait, run, or have not even come yet", async () => {
    bench.receive("running");
    bench.receive("waiting");
    bench.executor.cancel("waiting");
    bench.executor.cancel("running");
    bench.executor.cancel("to come");
    await vi.advanceTimersByTimeAsync(0);
    bench.receive("to come");
    expect(bench.said("waiting").at(-1)).toBe("CANCELLED command_cancelled");
    expect(bench.said("running").at(-1)).toBe("CANCELLED command_cancelled");
    expect(bench.said("to come")).toEqual(["CANCELLED command_cancelled", "CANCELLED command_cancelled"]);
    expect(bench.started.map(({ id }) => id)).toEqual(["running"]);
  });

  it("that have completed are not un-done by a late cancel", async () => {
    bench.receive("a");
    await bench.finish("a");
    bench.executor.cancel("a");
    expect(bench.said("a")).toEqual(["acknowledged", "completed", "completed"]);
  });

  it("give way to STOP, but a running STOP goes on", async () => {
    bench.receive("configure", CommandType.CONFIGURE);
    bench.receive("start");
    bench.receive("stop", CommandType.STOP);
    await vi.advanceTimersByTimeAsync(0);
    expect(bench.said("configure").at(-1)).toBe("INTERRUPTED command_interrupted");
    expect(bench.said("start").at(-1)).toBe("CANCELLED command_cancelled");
    bench.receive("second stop", CommandType.STOP);
    expect(bench.executor.runningIds()).toEqual(["stop"]);
    await bench.finish("stop");
    await bench.finish("second stop");
    expect(bench.started.map(({ id }) => id)).toEqual(["configure", "stop", "second stop"]);
  });

  it("are interrupted, recorded and reported when the agent is stopped", async () => {
    bench.receive("a");
    bench.receive("b");
    await bench.executor.stop();
    bench.receive("c");
    expect(bench.said("a").at(-1)).toBe("INTERRUPTED command_interrupted");
    expect(bench.started).toHaveLength(1);
    const next = new Bench(directory);
    next.receive("a");
    expect(next.said("a")).toEqual(["INTERRUPTED command_interrupted"]);
  });

  it("without progress over five checks are marked stalled at each check, until they move again", async () => {
    const progress = { step: "download", stepIndex: 0, stepCount: 1, done: 1, total: 10 };
    const stalls = () =>
      bench.sent.flatMap(({ body }) => (body?.case === "commandProgress" ? [body.value.stalled] : []));
    bench.receive("a");
    bench.started[0]?.context.onProgress(progress);
    await vi.advanceTimersByTimeAsync(5 * 30_000);
    expect(stalls()).toEqual([false]);
    await vi.advanceTimersByTimeAsync(2 * 30_000);
    expect(stalls()).toEqual([false, true, true]);
    bench.now = 210_000;
    bench.started[0]?.context.onProgress({ ...progress, done: 2 });
    await vi.advanceTimersByTimeAsync(30_000);
    expect(stalls().at(-1)).toBe(false);
    await bench.finish("a");
    const count = stalls().length;
    await vi.advanceTimersByTimeAsync(600_000);
    expect(stalls()).toHaveLength(count);
  });
});
