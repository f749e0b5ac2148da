import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { nextAlarm, timerBackoffMs } from "../../../domain/alarm/next-alarm.ts";

describe("the next alarm", () => {
  it("is the earliest timer's, at least 1 ms ahead, and none without timers", () => {
    expect(nextAlarm([], 50)).toBeNull();
    expect(nextAlarm([{ dueAt: 90 }, { dueAt: 70 }, { dueAt: 80 }], 50)).toBe(70);
    expect(nextAlarm([{ dueAt: 50 }], 50)).toBe(51);
    expect(nextAlarm([{ dueAt: 10 }], 50)).toBe(51);
  });

  it("is always ahead, never after a timer that lies ahead, for any set of timers", () => {
    const times = fc.array(fc.integer({ min: 0, max: 1_000_000 }), { minLength: 1 });
    fc.assert(
      fc.property(times, fc.integer({ min: 0, max: 1_000_000 }), (due, now) => {
        const alarm = nextAlarm(
          due.map((dueAt) => ({ dueAt })),
          now,
        );
        expect(alarm).not.toBeNull();
        expect(alarm).toBeGreaterThan(now);
        for (const dueAt of due) if (dueAt > now) expect(alarm).toBeLessThanOrEqual(dueAt);
      }),
    );
  });
});

describe("a failed timer", () => {
  it("waits longer each time, up to five minutes", () => {
    expect([1, 2, 3, 9, 10, 1_000].map(timerBackoffMs)).toEqual([1_000, 2_000, 4_000, 256_000, 300_000, 300_000]);
  });
});
