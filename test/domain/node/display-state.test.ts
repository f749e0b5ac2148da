import { describe, expect, it } from "vitest";
import { displayState } from "../../../domain/node/display-state.ts";
import { APPLICATION_HEALTHS, NODE_STATES, SYNC_STATUSES } from "../../../domain/node/node.ts";

describe("the one word that people see", () => {
  it("is the infrastructure's where that is not plainly running", () => {
    for (const state of NODE_STATES) {
      if (state === "healthy" || state === "syncing" || state === "degraded") continue;
      for (const health of APPLICATION_HEALTHS) {
        for (const sync of SYNC_STATUSES) expect(displayState(state, health, sync)).toBe(state);
      }
    }
  });

  it("is application health's before sync's", () => {
    expect(displayState("healthy", "critical", "stalled")).toBe("critical");
    expect(displayState("healthy", "degraded", "stalled")).toBe("degraded");
    expect(displayState("syncing", "ok", "stalled")).toBe("stalled");
    expect(displayState("healthy", "unknown", "synced")).toBe("healthy");
    expect(displayState("degraded", "ok", "synced")).toBe("degraded");
    expect(displayState("syncing", "unknown", "unknown")).toBe("syncing");
  });
});
