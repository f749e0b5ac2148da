import { describe, it } from "vitest";
import { type BeatFigures, costRatio } from "../../bench/heartbeat/beat-figures.ts";
import { beatVerdicts } from "../../bench/heartbeat/limits.ts";
import { median, slope } from "../../bench/numbers.ts";

describe("the figures of a bench", () => {
  it("are medians, of an even number of rounds the mean of the middle two", ({ expect }) => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 3, 2])).toBe(2.5);
  });

  it("take memory per node from the line through the batches, whatever its beginning", ({ expect }) => {
    const points = [200, 400, 600].map((x) => ({ x, y: 50_000 + 84 * x }));
    expect(slope(points)).toBeCloseTo(84, 9);
  });

  it("compare two subjects within a round, so that a slow machine meets both", ({ expect }) => {
    const slowing = { median: 20, least: 10, most: 40, rounds: [10, 20, 40] };
    const slowed = { median: 22, least: 11, most: 44, rounds: [11, 22, 44] };
    expect(costRatio(beats("direct", { edge: slowed }), "edge", beats("bare", { edge: slowing }), "edge")).toBeCloseTo(
      1.1,
    );
  });

  it("say of each limit whether it is kept, for each subject that has one", ({ expect }) => {
    const of = (median: number) => ({ median, least: median, most: median, rounds: [median] });
    const verdicts = beatVerdicts([
      beats("bare", { edge: of(10) }),
      beats("direct", { edge: of(12) }),
      beats("bridge", { edge: of(14), bridge: of(60) }),
      beats("echo", { echo: of(40) }),
    ]);
    expect(verdicts.map(({ value, isKept }) => [value, isKept])).toEqual([
      [1.2, true],
      [1.4, false],
      [1.5, true],
    ]);
  });
});

function beats(subject: string, microsPerBeat: BeatFigures["microsPerBeat"]): BeatFigures {
  return { nodes: 1, pace: "closed loop", subject, beatsPerSecond: 1, answered: 1, missing: 0, microsPerBeat };
}
