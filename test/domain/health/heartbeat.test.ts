import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { nextAlarm } from "../../../domain/alarm/next-alarm.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { evaluateHeartbeat, type HeartbeatSnapshot, silenceDeadline } from "../../../domain/health/heartbeat.ts";
import { NODE_STATES } from "../../../domain/node/node.ts";

const SECOND = 1_000;

function snapshot(part: Partial<HeartbeatSnapshot> = {}): HeartbeatSnapshot {
  return {
    state: "healthy",
    stateSince: 0,
    applicationHealth: "unknown",
    syncStatus: "synced",
    hasPolicies: false,
    lastBeatAt: 0,
    listeningSince: 0,
    aliveSince: 0,
    ...part,
  };
}

const decide = (part: Partial<HeartbeatSnapshot>, now: number) => evaluateHeartbeat(snapshot(part), DEFAULTS, now);

/** Gaps between beats, mostly around the limits. */
const gaps = fc.array(
  fc.oneof(
    fc.integer({ min: 1, max: 15 * SECOND }),
    fc.integer({ min: 50 * SECOND, max: 130 * SECOND }),
    fc.constantFrom(59_999, 60_000, 119_999, 120_000, 120_001),
  ),
  { minLength: 1, maxLength: 60 },
);

/** Drives a node by its own derived alarm alone, as the object does; answers when it went down for the first time. */
function runByAlarm(beats: readonly number[], until: number): { downAt: number | null; effectiveAt: number | null } {
  let now = 0;
  let last = 0;
  while (now <= until) {
    last = beats.findLast((beat) => beat <= now) ?? 0;
    const decision = decide({ lastBeatAt: last }, now);
    if (decision.transition?.to === "down") return { downAt: now, effectiveAt: decision.transition.effectiveAt };
    const timers = decision.nextLookAt === null ? [] : [{ dueAt: decision.nextLookAt }];
    now = nextAlarm(timers, now) ?? until + 1;
  }
  return { downAt: null, effectiveAt: null };
}

/** What the sources describe: look each 30 s, count a failure when 60 s passed without a beat, three in a row = down. */
function runNaively(beats: readonly number[], phase: number, until: number): number | null {
  let failures = 0;
  for (let now = phase; now <= until; now += 30 * SECOND) {
    const last = beats.findLast((beat) => beat <= now) ?? 0;
    failures = now - last >= 60 * SECOND ? failures + 1 : 0;
    if (failures >= 3) return now;
  }
  return null;
}

describe("silence", () => {
  it("counts one failure at 60 s and one more each 30 s", () => {
    const failures = (silentMs: number) => decide({}, silentMs).failures;
    expect([59_999, 60_000, 89_999, 90_000, 119_999, 120_000].map(failures)).toEqual([0, 1, 1, 2, 2, 3]);
  });

  it("makes a node down exactly 120 s after its last beat, dated back to it", () => {
    expect(decide({ lastBeatAt: 5_000 }, 124_999).transition).toBeNull();
    expect(decide({ lastBeatAt: 5_000 }, 125_000).transition).toMatchObject({
      to: "down",
      trigger: "heartbeat",
      effectiveAt: 5_000,
    });
    expect(silenceDeadline({ lastBeatAt: 5_000, listeningSince: 0 }, DEFAULTS)).toBe(125_000);
  });

  it("is counted, and dated, from the start of our listening when we had not been listening", () => {
    const gap = { lastBeatAt: 1_000, listeningSince: 500_000 };
    expect(decide(gap, 619_999).transition).toBeNull();
    expect(decide(gap, 620_000).transition).toMatchObject({ to: "down", effectiveAt: 500_000 });
  });

  it("is never dated before the state that it ends", () => {
    const late = decide({ state: "syncing", stateSince: 300_000, lastBeatAt: 10_000 }, 300_000);
    expect(late.transition).toMatchObject({ to: "down", effectiveAt: 300_000 });
  });

  it("means nothing to a node that is not watched", () => {
    for (const state of NODE_STATES) {
      if (["syncing", "healthy", "degraded", "down"].includes(state)) continue;
      expect(decide({ state }, 10_000_000)).toMatchObject({ transition: null, nextLookAt: null });
    }
  });

  it("makes a node down if and only if a gap reached 120 s, whatever the pattern of beats", () => {
    fc.assert(
      fc.property(gaps, (pattern) => {
        const beats: number[] = [];
        let at = 0;
        for (const gap of pattern) {
          at += gap;
          beats.push(at);
        }
        const { downAt, effectiveAt } = runByAlarm(beats, at);
        const firstLong = pattern.findIndex((gap) => gap > 120 * SECOND);
        const exact = pattern.findIndex((gap) => gap >= 120 * SECOND);
        if (exact === -1) expect(downAt).toBeNull();
        // A beat in the very millisecond of the deadline may be heard first: only a longer gap is sure to be seen.
        if (exact === -1 || firstLong !== exact) return;
        const before = exact === 0 ? 0 : (beats[exact - 1] ?? 0);
        expect(effectiveAt).toBe(before);
        expect(downAt).toBe(before + 120 * SECOND);
      }),
      { numRuns: 500 },
    );
  });

  it("is judged alike by every naive evaluator that looks each 30 s, at any phase, and goes down", () => {
    fc.assert(
      fc.property(gaps, fc.integer({ min: 0, max: 29_999 }), (pattern, phase) => {
        const beats = pattern.map((_gap, index) => pattern.slice(0, index + 1).reduce((sum, gap) => sum + gap, 0));
        const until = (beats.at(-1) ?? 0) + 300 * SECOND;
        const naive = runNaively(beats, phase, until);
        if (naive === null) return;
        const { downAt } = runByAlarm(beats, until);
        expect(downAt).not.toBeNull();
        expect(downAt ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(naive);
        expect(decide({ lastBeatAt: beats.findLast((beat) => beat <= naive) ?? 0 }, naive).transition?.to).toBe("down");
      }),
      { numRuns: 500 },
    );
  });
});

describe("a day of beats each 10 s", () => {
  it("is never anything but up, with at most one alarm per 110 s", () => {
    const day = 86_400 * SECOND;
    let now = 0;
    let alarms = 0;
    let alarm = nextAlarm([{ dueAt: silenceDeadline({ lastBeatAt: 0, listeningSince: 0 }, DEFAULTS) }], now);
    while (alarm !== null && alarm <= day) {
      expect(alarm - now).toBeGreaterThanOrEqual(110 * SECOND);
      now = alarm;
      alarms += 1;
      const decision = decide({ lastBeatAt: Math.floor(now / 10_000) * 10_000 }, now);
      expect(decision.transition).toBeNull();
      alarm = decision.nextLookAt === null ? null : nextAlarm([{ dueAt: decision.nextLookAt }], now);
    }
    expect(alarms).toBeLessThanOrEqual(day / (110 * SECOND));
    expect(alarms).toBeGreaterThan(700);
  });
});

describe("beats", () => {
  it("bring a node back by its sync status, on proof of life and never on our listening alone", () => {
    const down = { state: "down", lastBeatAt: 1_000_000 } as const;
    expect(decide({ ...down, syncStatus: "synced" }, 1_000_000).transition).toMatchObject({ to: "healthy" });
    expect(decide({ ...down, syncStatus: "unknown" }, 1_000_000).transition).toMatchObject({ to: "syncing" });
    expect(decide({ state: "down", lastBeatAt: 0, listeningSince: 1_000_000 }, 1_000_000).transition).toBeNull();
    expect(decide({ state: "down", lastBeatAt: null }, 1_000).transition).toBeNull();
  });

  it("earn healthy with a synced chain and lose it without, while the agent is alive", () => {
    const at = 10_000;
    const alive = { lastBeatAt: at };
    expect(decide({ ...alive, state: "syncing" }, at).transition).toMatchObject({ to: "healthy" });
    expect(decide({ ...alive, state: "healthy", syncStatus: "stalled" }, at).transition).toMatchObject({
      to: "syncing",
    });
    expect(decide({ ...alive, state: "healthy" }, at).transition).toBeNull();
    expect(decide({ lastBeatAt: 0, state: "syncing" }, 60_000).transition).toBeNull();
  });

  it("bring back a degraded node after 60 s alive in good health, and no earlier", () => {
    const degraded = { state: "degraded", stateSince: 100_000, aliveSince: 50_000, lastBeatAt: 155_000 } as const;
    expect(decide(degraded, 159_999)).toMatchObject({ transition: null, nextLookAt: 160_000 });
    expect(decide(degraded, 160_000).transition).toMatchObject({ to: "healthy" });
    expect(decide({ ...degraded, applicationHealth: "degraded" }, 160_000).transition).toBeNull();
    expect(decide({ ...degraded, hasPolicies: true }, 160_000).transition).toBeNull();
    expect(decide({ ...degraded, hasPolicies: true, applicationHealth: "ok" }, 160_000).transition).not.toBeNull();
    expect(decide({ ...degraded, aliveSince: 130_000 }, 160_000).transition).toBeNull();
    expect(decide({ ...degraded, aliveSince: null }, 160_000).transition).toBeNull();
  });
});
