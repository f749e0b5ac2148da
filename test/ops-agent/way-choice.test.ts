import { describe, expect, it } from "vitest";
import { type Attempt, WayChoice } from "../../ops-agent/session/way-choice.ts";

const RETURN_MS = 1_000;

/** The ways that are taken after each of these. */
function walk(attempts: readonly Attempt[], ways = 2): number[] {
  const choice = new WayChoice({ ways, failuresPerWay: 2, returnMs: RETURN_MS });
  return attempts.map((attempt) => {
    choice.ended(attempt, 0);
    return choice.index;
  });
}

describe("the agent's way", () => {
  it("is left after two failures in a row, and a session in between counts anew", () => {
    expect(walk(["failed", "held", "failed", "failed", "failed", "failed"])).toEqual([0, 0, 0, 1, 1, 0]);
  });

  it("is left at once when it tampers", () => {
    expect(walk(["tampered", "tampered", "failed", "tampered"])).toEqual([1, 0, 0, 1]);
  });

  it("is always the same when there is one", () => {
    expect(walk(["failed", "failed", "failed", "tampered"], 1)).toEqual([0, 0, 0, 0]);
  });

  it("is the first again after a time that begins when the first was left", () => {
    const choice = new WayChoice({ ways: 2, failuresPerWay: 1, returnMs: RETURN_MS });
    expect(choice.returnInMs(0)).toBeNull();
    choice.ended("failed", 100);
    expect(choice.returnInMs(100)).toBe(RETURN_MS);
    choice.ended("held", 600);
    expect(choice.returnInMs(600)).toBe(RETURN_MS - 500);
    choice.postponeReturn(1_100);
    expect(choice.returnInMs(1_100)).toBe(RETURN_MS);
    choice.toFirst();
    expect([choice.index, choice.returnInMs(1_200)]).toEqual([0, null]);
  });
});
