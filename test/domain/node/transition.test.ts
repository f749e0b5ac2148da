import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { errorCodeOf } from "../../../domain/errors.ts";
import { NODE_STATES, type NodeState, TRANSITION_TRIGGERS } from "../../../domain/node/node.ts";
import { forceTransition, type NodeCondition, transition } from "../../../domain/node/transition.ts";

/** DESIGN section 4, written a second time by hand: from, to, by. */
const EXPECTED = new Set([
  "provisioning>syncing:provision_saga",
  "provisioning>failed:provision_saga",
  "provisioning>failed:compensation",
  "syncing>healthy:evaluation",
  "healthy>syncing:evaluation",
  "syncing>down:heartbeat",
  "healthy>down:heartbeat",
  "degraded>down:heartbeat",
  "down>healthy:heartbeat",
  "down>syncing:heartbeat",
  "degraded>healthy:evaluation",
  "degraded>syncing:evaluation",
  ...["syncing", "healthy", "degraded", "down"].flatMap((from) => [
    `${from}>maintenance:migrate_saga`,
    `${from}>maintenance:upgrade_saga`,
  ]),
  "maintenance>syncing:migrate_saga",
  "maintenance>syncing:upgrade_saga",
  "maintenance>syncing:compensation",
  "maintenance>syncing:maintenance_sweep",
  "maintenance>healthy:upgrade_saga",
  "maintenance>healthy:compensation",
  "maintenance>healthy:maintenance_sweep",
  "maintenance>degraded:migrate_saga",
  "maintenance>degraded:upgrade_saga",
  "maintenance>degraded:compensation",
  "maintenance>degraded:maintenance_sweep",
  "maintenance>failed:migrate_saga",
  "maintenance>failed:compensation",
  ...["provisioning", "syncing", "healthy", "degraded", "down", "maintenance"].flatMap((from) => [
    `${from}>terminating:terminate_saga`,
    `${from}>terminating:operator`,
  ]),
  "terminating>terminated:terminate_saga",
]);

/** A saga whose answer was lost asks again: nothing happens, and nothing is refused. */
const REPEATED = new Set(
  ["healthy", "degraded", "down", "maintenance"].map((from) => `${from}>syncing:provision_saga`),
);

function condition(state: NodeState): NodeCondition {
  return {
    state,
    stateSince: 1_000,
    applicationHealth: "degraded",
    syncStatus: "synced",
    downSince: state === "down" ? 900 : null,
    maintenanceFrom: state === "maintenance" ? "healthy" : null,
  };
}

function codeOf(act: () => unknown): string | null {
  try {
    act();
    return null;
  } catch (thrown) {
    return errorCodeOf(thrown);
  }
}

const everyMove = NODE_STATES.flatMap((from) =>
  NODE_STATES.flatMap((to) => TRANSITION_TRIGGERS.map((trigger) => ({ from, to, trigger }))),
);

describe("the table of states", () => {
  it("allows exactly what the design names and refuses every other move with a code", () => {
    for (const { from, to, trigger } of everyMove) {
      if (from === to) continue;
      const name = `${from}>${to}:${trigger}`;
      const request = { to, trigger, effectiveAt: 2_000 };
      const code = codeOf(() => transition(condition(from), request));
      if (EXPECTED.has(name) || REPEATED.has(name)) expect(code, name).toBeNull();
      else if (from === "terminated" || from === "failed") expect(code, name).toBe("node_ended");
      else if (from === "terminating") expect(code, name).toBe("node_terminating");
      else expect(code, name).toBe("invalid_transition");
    }
  });

  it("changes nothing for a node that is there already, or whose saga asks twice", () => {
    for (const state of NODE_STATES) {
      const before = condition(state);
      expect(transition(before, { to: state, trigger: "operator", effectiveAt: 2_000 })).toBe(before);
    }
    const healthy = condition("healthy");
    expect(transition(healthy, { to: "syncing", trigger: "provision_saga", effectiveAt: 2_000 })).toBe(healthy);
  });

  it("resets both dimensions in a terminal state and keeps them in every other", () => {
    const failed = transition(condition("provisioning"), { to: "failed", trigger: "compensation", effectiveAt: 5 });
    expect(failed).toMatchObject({ state: "failed", applicationHealth: "unknown", syncStatus: "unknown" });
    const down = transition(condition("healthy"), { to: "down", trigger: "heartbeat", effectiveAt: 5 });
    expect(down).toMatchObject({ applicationHealth: "degraded", syncStatus: "synced" });
  });

  it("remembers since when a node is down, and from which state maintenance was entered", () => {
    const down = transition(condition("healthy"), { to: "down", trigger: "heartbeat", effectiveAt: 700 });
    expect(down).toMatchObject({ downSince: 700, stateSince: 700 });
    const maintenance = transition(down, { to: "maintenance", trigger: "migrate_saga", effectiveAt: 800 });
    expect(maintenance).toMatchObject({ downSince: null, maintenanceFrom: "down" });
    const back = transition(maintenance, { to: "syncing", trigger: "migrate_saga", effectiveAt: 900 });
    expect(back.maintenanceFrom).toBeNull();
  });

  it("can be skipped by force, but never out of a terminal state", () => {
    for (const { from, to, trigger } of everyMove) {
      const code = codeOf(() => forceTransition(condition(from), { to, trigger, effectiveAt: 2_000 }));
      const isOut = (from === "terminated" || from === "failed") && from !== to;
      expect(code).toBe(isOut ? "node_ended" : null);
    }
  });

  it("never leaves a terminal state, whatever is asked of it in whatever order", () => {
    const moves = fc.array(
      fc.record({
        to: fc.constantFrom(...NODE_STATES),
        trigger: fc.constantFrom(...TRANSITION_TRIGGERS),
        forced: fc.boolean(),
      }),
    );
    fc.assert(
      fc.property(moves, (requests) => {
        let current = condition("provisioning");
        for (const { to, trigger, forced } of requests) {
          const before = current;
          try {
            const move = forced ? forceTransition : transition;
            current = move(before, { to, trigger, effectiveAt: 2_000 });
          } catch (thrown) {
            expect(errorCodeOf(thrown)).not.toBeNull();
          }
          if (before.state === "terminated" || before.state === "failed") expect(current.state).toBe(before.state);
        }
      }),
    );
  });
});
