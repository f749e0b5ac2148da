import { describe, it } from "vitest";
import type { NodeHour } from "../../bench/heartbeat/hour.ts";
import { priceOf } from "../../bench/heartbeat/price.ts";

const STILL: NodeHour = {
  beats: 0,
  woken: 0,
  rowsRead: 0,
  rowsWritten: 0,
  alarmsSet: 0,
  databaseBytes: 0,
  events: {},
};

describe("the price of a node", () => {
  it("is nothing for one that does nothing", ({ expect }) => {
    expect(priceOf(STILL, 0).totalWithBeats).toBe(0);
  });

  it("has an alarm as a request, a row and ten milliseconds of activity", ({ expect }) => {
    const price = priceOf({ ...STILL, alarmsSet: 1, events: { alarm: 1 } }, 0);
    expect(price.requests).toBeCloseTo(720 * 0.15e-6, 12);
    expect(price.rowsWritten).toBeCloseTo(720 * 1e-6, 12);
    expect(price.duration).toBeCloseTo(720 * 0.01 * 0.128 * 12.5e-6, 12);
    expect(price.total).toBeCloseTo(price.requests + price.rowsWritten + price.duration, 12);
  });

  it("counts twenty messages as a request, and beats apart, since nobody says whether they count", ({ expect }) => {
    expect(priceOf({ ...STILL, events: { webSocketMessage: 20 } }, 0).requests).toBeCloseTo(720 * 0.15e-6, 12);
    const { total, beats } = priceOf({ ...STILL, beats: 360 }, 0);
    expect(total).toBe(0);
    expect(beats).toBeCloseTo(0.001944, 9);
  });
});
