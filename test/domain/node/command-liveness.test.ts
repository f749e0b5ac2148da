import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { livenessLookAt, lostAt, observeReport, seen } from "../../../domain/node/command-liveness.ts";

const SETTINGS = {
  beatMs: 10_000,
  silenceLimitMs: 120_000,
  livenessChecks: 3,
  livenessCheckMs: 100,
  graceMs: 60_000,
};

describe("a command in the agent's hands", () => {
  it("is lost a grace after three reports without it", () => {
    let sightings = seen(0);
    for (const at of [10_000, 20_000, 30_000]) sightings = observeReport(sightings, false, SETTINGS, at);
    expect(sightings).toEqual({ seenAt: 0, misses: 3, missedAt: 30_000 });
    expect(lostAt(sightings, 30_000, SETTINGS)).toBe(90_000);
    expect(observeReport(sightings, false, SETTINGS, 40_000)).toBe(sightings);
  });

  it("is alive again with any report that names it", () => {
    const missed = observeReport(seen(0), false, SETTINGS, 10_000);
    expect(observeReport(missed, true, SETTINGS, 20_000)).toEqual(seen(20_000));
  });

  it("is not missed twice by reports closer than 100 ms", () => {
    const once = observeReport(seen(0), false, SETTINGS, 1_000);
    expect(observeReport(once, false, SETTINGS, 1_099)).toBe(once);
    expect(observeReport(once, false, SETTINGS, 1_100).misses).toBe(2);
  });

  it("is lost when the agent beats on without a word of it, and kept longer while the agent is silent", () => {
    expect(lostAt(seen(0), 35_000, SETTINGS)).toBe(90_000);
    expect(lostAt(seen(0), 0, SETTINGS)).toBe(180_000);
    expect(lostAt(seen(0), null, SETTINGS)).toBe(180_000);
  });

  it("is looked at whenever it could have become lost, and never without end", () => {
    const beats = fc.option(fc.integer({ min: 0, max: 400_000 }), { nil: null });
    fc.assert(
      fc.property(beats, fc.nat(400_000), (beat, now) => {
        const due = lostAt(seen(0), beat, SETTINGS);
        const look = livenessLookAt(seen(0), beat, SETTINGS, now);
        expect(look).toBeLessThanOrEqual(due);
        if (now < due) expect(look).toBeGreaterThan(now);
      }),
    );
  });
});
