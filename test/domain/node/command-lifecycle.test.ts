import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { planDelivery } from "../../../domain/node/command-delivery.ts";
import {
  advance,
  type CommandRecord,
  type CommandSignal,
  isEnded,
  isLive,
} from "../../../domain/node/command-lifecycle.ts";

const SETTINGS = DEFAULTS.command;

function command(part: Partial<CommandRecord> = {}): CommandRecord {
  return {
    commandId: "c1",
    type: "START",
    state: "queued",
    cancelRequested: false,
    stalled: false,
    stalledReports: 0,
    progress: null,
    createdAt: 0,
    expiresAt: 300_000,
    sentAt: null,
    deliveredAt: null,
    acknowledgedAt: null,
    endedAt: null,
    code: null,
    message: null,
    metadata: {},
    ...part,
  };
}

const progress = { step: "download", stepIndex: 1, stepCount: 3, done: 1, total: 2 };

const FAILURES = ["failed", "interrupted", "expired", "cancelled", "refused"] as const;
const signals: readonly CommandSignal[] = [
  { kind: "delivered" },
  { kind: "acknowledged" },
  { kind: "progressed", progress, stalled: false },
  { kind: "progressed", progress, stalled: true },
  { kind: "completed", metadata: { a: "1" } },
  ...FAILURES.map((failure) => ({ kind: "failed", failure, code: null, message: "m" }) as const),
  { kind: "cancel", message: "m" },
  { kind: "superseded", message: "m" },
  { kind: "lost", message: "m" },
  { kind: "time_passed" },
];

function run(start: CommandRecord, steps: readonly CommandSignal[], now = 1_000): CommandRecord {
  return steps.reduce((current, signal) => advance(current, signal, SETTINGS, now), start);
}

describe("a command's life", () => {
  it("goes from queued by delivery, acknowledgement and progress to completed", () => {
    const sent = run(command(), [{ kind: "delivered" }]);
    const acknowledged = run(sent, [{ kind: "acknowledged" }]);
    expect([sent.state, acknowledged.state]).toEqual(["sent", "acknowledged"]);
    const running = run(acknowledged, [{ kind: "progressed", progress, stalled: false }]);
    expect(running).toMatchObject({ state: "running", progress: { ...progress, at: 1_000 } });
    expect(run(running, [{ kind: "completed", metadata: { v: "1" } }])).toMatchObject({
      state: "completed",
      metadata: { v: "1" },
      endedAt: 1_000,
    });
  });

  it("takes its end and code from what the agent says", () => {
    const sent = run(command(), [{ kind: "delivered" }]);
    const ends = FAILURES.map((failure) => {
      const { state, code } = run(sent, [{ kind: "failed", failure, code: null, message: "m" }]);
      return [failure, state, code];
    });
    expect(ends).toEqual([
      ["failed", "failed", "command_failed"],
      ["interrupted", "interrupted", "command_interrupted"],
      ["expired", "expired", "command_expired"],
      ["cancelled", "cancelled", "command_cancelled"],
      ["refused", "failed", "command_refused"],
    ]);
    expect(run(sent, [{ kind: "failed", failure: "failed", code: "disk_full", message: "m" }]).code).toBe("disk_full");
  });

  it("ends unsent at its time to live, and is never delivered from then on", () => {
    expect(advance(command(), { kind: "time_passed" }, SETTINGS, 299_999).state).toBe("queued");
    expect(advance(command(), { kind: "time_passed" }, SETTINGS, 300_000)).toMatchObject({
      state: "expired",
      code: "command_expired",
    });
    expect(advance(command(), { kind: "delivered" }, SETTINGS, 300_000).state).toBe("expired");
  });

  it("that the agent never confirmed is given up a grace after its time to live", () => {
    const sent = run(command(), [{ kind: "delivered" }]);
    expect(advance(sent, { kind: "time_passed" }, SETTINGS, 359_999).state).toBe("sent");
    expect(advance(sent, { kind: "time_passed" }, SETTINGS, 360_000).state).toBe("expired");
    const asked = advance(sent, { kind: "cancel", message: "m" }, SETTINGS, 2_000);
    expect(advance(asked, { kind: "time_passed" }, SETTINGS, 360_000).state).toBe("cancelled");
  });

  it("is cancelled at once while queued, and by asking the agent later", () => {
    expect(run(command(), [{ kind: "cancel", message: "m" }]).state).toBe("cancelled");
    const running = run(command({ state: "running" }), [{ kind: "cancel", message: "m" }]);
    expect(running).toMatchObject({ state: "running", cancelRequested: true });
  });

  it("fails after twenty stalled reports in a row, which any progress starts afresh", () => {
    const stalled = { kind: "progressed", progress, stalled: true } as const;
    const nineteen = run(command({ state: "running" }), Array(19).fill(stalled));
    expect(nineteen).toMatchObject({ state: "running", stalled: true, stalledReports: 19 });
    expect(run(nineteen, [stalled])).toMatchObject({ state: "failed", code: "command_stalled" });
    const moved = run(nineteen, [{ kind: "progressed", progress, stalled: false }, stalled]);
    expect(moved).toMatchObject({ state: "running", stalledReports: 1 });
  });

  it("never leaves an end, never goes backwards, and ends with a time, for any sequence of signals", () => {
    const rank = { queued: 0, sent: 1, acknowledged: 2, running: 3 } as const;
    const steps = fc.array(fc.record({ signal: fc.constantFrom(...signals), ms: fc.integer({ min: 0, max: 90_000 }) }));
    fc.assert(
      fc.property(steps, (sequence) => {
        let now = 0;
        let current = command();
        for (const { signal, ms } of sequence) {
          now += ms;
          const before = current;
          current = advance(before, signal, SETTINGS, now);
          if (isEnded(before.state)) expect(current).toBe(before);
          expect(current.endedAt !== null).toBe(isEnded(current.state));
          if (isEnded(current.state)) continue;
          const order = (state: string) => Object.entries(rank).find(([name]) => name === state)?.[1] ?? -1;
          expect(order(current.state)).toBeGreaterThanOrEqual(order(before.state));
        }
      }),
      { numRuns: 500 },
    );
  });
});

/** A queue of commands and an agent that answers, reduced to the rules. */
function simulate(types: readonly ("START" | "STOP")[], choices: readonly number[]) {
  let now = 0;
  let all: CommandRecord[] = [];
  const delivered: string[] = [];
  const started: string[] = [];
  const put = (next: CommandRecord) => {
    all = all.map((known) => (known.commandId === next.commandId ? next : known));
  };
  const pump = () => {
    const live = all.filter(({ state }) => isLive(state));
    const queued = all.filter(({ state }) => state === "queued");
    const queue = { live, head: queued[0] ?? null, stop: queued.find(({ type }) => type === "STOP") ?? null };
    for (const { commandId, frame } of planDelivery(queue, SETTINGS, now, { newSession: false })) {
      const found = all.find((known) => known.commandId === commandId);
      if (found === undefined) continue;
      if (frame === "command" && found.state === "queued") started.push(commandId);
      delivered.push(commandId);
      put(advance(found, { kind: "delivered" }, SETTINGS, now));
    }
    const executing = all.filter(
      ({ state, type, cancelRequested }) => isLive(state) && type !== "STOP" && !cancelRequested,
    );
    expect(executing.length).toBeLessThanOrEqual(1);
    expect(all.filter(({ state, type }) => isLive(state) && type === "STOP").length).toBeLessThanOrEqual(1);
  };
  for (const [index, type] of types.entries()) {
    now += 10;
    if (type === "STOP") {
      for (const known of all) {
        if (known.type !== "STOP")
          put(advance(known, { kind: "superseded", message: "superseded by STOP" }, SETTINGS, now));
      }
    }
    all = [...all, command({ commandId: `c${index}`, type, createdAt: now, expiresAt: now + 10_000_000 })];
    pump();
    const live = all.filter(({ state }) => isLive(state));
    const chosen = live[(choices[index] ?? 0) % Math.max(1, live.length)];
    if (chosen !== undefined && (choices[index] ?? 0) % 3 !== 0)
      put(advance(chosen, { kind: "completed", metadata: {} }, SETTINGS, now));
    pump();
  }
  return { all, started };
}

describe("the commands of one agent", () => {
  it("start in the order in which they were queued, at most one at a time, and STOP overtakes", () => {
    const types = fc.array(fc.constantFrom("START" as const, "START" as const, "START" as const, "STOP" as const), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(types, fc.array(fc.nat(100), { maxLength: 60 }), (kinds, choices) => {
        const { started } = simulate(kinds, choices);
        const positions = started.map((id) => Number(id.slice(1)));
        expect(positions).toEqual([...positions].sort((a, b) => a - b));
        expect(new Set(started).size).toBe(started.length);
      }),
    );
  });

  it("are sent again to a new session, and of a cancelled one only the cancellation", () => {
    const running = command({ state: "running", deliveredAt: 0 });
    const cancelled = command({ commandId: "c2", state: "sent", deliveredAt: 0, cancelRequested: true });
    const queue = { live: [running, cancelled], head: null, stop: null };
    expect(planDelivery(queue, SETTINGS, 1, { newSession: true })).toEqual([
      { commandId: "c1", frame: "command" },
      { commandId: "c2", frame: "cancel" },
    ]);
    expect(planDelivery(queue, SETTINGS, 1, { newSession: false })).toEqual([]);
  });

  it("are sent again when 30 s pass without an acknowledgement", () => {
    const sent = command({ state: "sent", deliveredAt: 1_000 });
    const queue = { live: [sent], head: command({ commandId: "c2" }), stop: null };
    expect(planDelivery(queue, SETTINGS, 30_999, { newSession: false })).toEqual([]);
    expect(planDelivery(queue, SETTINGS, 31_000, { newSession: false })).toEqual([
      { commandId: "c1", frame: "command" },
    ]);
  });
});
