import { describe, it } from "vitest";
import { NODE_STATES } from "../../../domain/node/node.ts";
import { endByNodeState, needsTouch, planSagaRepair } from "../../../domain/saga/repair.ts";

describe("the repair of a saga whose row says running", () => {
  it("creates what the engine does not know, and leaves alone what it runs", ({ expect }) => {
    expect(planSagaRepair(null, 0, 20)).toBe("create");
    for (const status of ["queued", "running", "waiting", "paused", "waitingForPause", "unknown"]) {
      expect(planSagaRepair(status, 0, 20)).toBe("none");
    }
  });

  it("restarts what errored, as often as the limit says and then never again", ({ expect }) => {
    const plans = Array.from({ length: 22 }, (_, restarts) => planSagaRepair("errored", restarts, 20));
    expect(plans).toEqual([...Array.from({ length: 20 }, () => "restart"), "give_up", "give_up"]);
  });

  it("asks the node about what is over", ({ expect }) => {
    expect(planSagaRepair("complete", 0, 20)).toBe("reconcile");
    expect(planSagaRepair("terminated", 20, 20)).toBe("reconcile");
  });

  it("reads the end of a saga from its node, and runs it again where the node shows none", ({ expect }) => {
    const provision = NODE_STATES.map((state) => [state, endByNodeState("provision-node", state)]);
    expect(Object.fromEntries(provision)).toEqual({
      provisioning: null,
      syncing: "succeeded",
      healthy: "succeeded",
      degraded: "succeeded",
      down: "succeeded",
      maintenance: "succeeded",
      terminating: "superseded",
      terminated: "superseded",
      failed: "failed",
    });
    for (const state of NODE_STATES) {
      const ended = state === "terminated" || state === "failed";
      expect(endByNodeState("terminate-node", state)).toBe(ended ? "succeeded" : null);
    }
  });

  it("cannot read from a living node what a re-enrolment has done, so it runs that again", ({ expect }) => {
    for (const state of NODE_STATES) {
      const isGoing = state === "terminating" || state === "terminated" || state === "failed";
      expect(endByNodeState("reenroll-node", state)).toBe(isGoing ? "superseded" : null);
    }
  });
});

describe("a saga that does not move", () => {
  it("is touched once it has been quiet for long enough", ({ expect }) => {
    expect(needsTouch("running", 14_999, 15_000)).toBe(false);
    expect(needsTouch("running", 15_000, 15_000)).toBe(true);
    expect(needsTouch("queued", 15_000, 15_000)).toBe(true);
  });

  it("is left alone while it waits for an event, or when it is over", ({ expect }) => {
    for (const status of ["waiting", "paused", "errored", "complete", "terminated", null]) {
      expect(needsTouch(status, 3_600_000, 15_000)).toBe(false);
    }
  });
});
