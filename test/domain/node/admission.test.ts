import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DEFAULTS } from "../../../domain/defaults.ts";
import {
  crowdedOut,
  type ExpectedInstallation,
  isNewsworthy,
  judgeEnrolment,
  judgeEpoch,
  judgeHello,
  judgeInstallation,
} from "../../../domain/node/admission.ts";
import { NODE_STATES } from "../../../domain/node/node.ts";
import { isTerminal } from "../../../domain/node/transition.ts";

const settings = DEFAULTS.agent;
const open: ExpectedInstallation = {
  status: "active",
  installationId: null,
  signingKey: null,
  sealingKey: null,
  sessionEpoch: 0,
};
const claim = { installationId: "i", signingKey: "aa", sealingKey: "bb" };
const enrolled: ExpectedInstallation = { ...open, ...claim };
const ticket = { nodeId: "n", generation: 1, installationId: "i", sessionEpoch: 3 };

describe("an enrolment", () => {
  it("is bound by the first claim, known by the same, and refused to any other", () => {
    expect(judgeEnrolment("provisioning", open, [], claim, settings)).toBe("bind");
    expect(judgeEnrolment("provisioning", enrolled, [], claim, settings)).toBe("known");
    for (const part of [{ installationId: "j" }, { signingKey: "ab" }, { sealingKey: "bc" }]) {
      expect(judgeEnrolment("healthy", enrolled, [], { ...claim, ...part }, settings)).toMatchObject({
        code: "agent_conflict",
        reconnectAfterMs: settings.conflictRetryMs,
      });
    }
  });

  it("is refused for good exactly where the host no longer belongs to the node", () => {
    for (const state of NODE_STATES) {
      for (const status of ["active", "candidate", "revoked"] as const) {
        const verdict = judgeEnrolment(state, { ...enrolled, status }, [], claim, settings);
        const isOver = isTerminal(state) || status === "revoked";
        expect(verdict).toEqual(isOver ? expect.objectContaining({ reconnectAfterMs: null }) : "known");
      }
    }
  });
});

describe("the enrolment of a later generation", () => {
  const earlier: ExpectedInstallation = { ...enrolled, status: "revoked" };
  const fresh = { installationId: "j", signingKey: "cc", sealingKey: "dd" };

  it("is bound by an installation with an id and keys of its own", () => {
    expect(judgeEnrolment("healthy", open, [earlier, { ...open, status: "revoked" }], fresh, settings)).toBe("bind");
  });

  it("is refused to the id and to each key of an earlier one, and then comes again with its own", () => {
    for (const part of ["installationId", "signingKey", "sealingKey"] as const) {
      expect(judgeEnrolment("healthy", open, [earlier], { ...fresh, [part]: claim[part] }, settings)).toMatchObject({
        code: "agent_conflict",
        reconnectAfterMs: settings.conflictRetryMs,
      });
    }
  });
});

describe("a Hello", () => {
  const hello = { ...ticket, protocolVersion: settings.protocolVersion };

  it("is challenged when it is its ticket's, in a version that is spoken, from an enrolled installation", () => {
    expect(judgeHello("healthy", enrolled, ticket, hello, settings)).toBeNull();
    expect(judgeHello("healthy", open, ticket, hello, settings)?.code).toBe("agent_not_enrolled");
    expect(judgeHello("healthy", null, ticket, hello, settings)?.code).toBe("no_installation");
    for (const part of [{ nodeId: "m" }, { generation: 2 }, { installationId: "j" }, { sessionEpoch: 4 }]) {
      expect(judgeHello("healthy", enrolled, ticket, { ...hello, ...part }, settings)?.code).toBe(
        "agent_unauthenticated",
      );
    }
    for (const protocolVersion of [0, 1, 3]) {
      const refusal = judgeHello("healthy", enrolled, ticket, { ...hello, protocolVersion }, settings);
      expect(refusal?.code).toBe("agent_protocol_unsupported");
    }
    expect(judgeInstallation("healthy", enrolled, "j", settings)?.code).toBe("agent_conflict");
  });

  it("never keeps an agent away for good while its installation is not revoked and the node lives", () => {
    const refusals = [
      judgeHello("healthy", open, ticket, hello, settings),
      judgeHello("healthy", null, ticket, hello, settings),
      judgeHello("healthy", enrolled, ticket, { ...hello, protocolVersion: 1 }, settings),
      judgeInstallation("healthy", enrolled, "j", settings),
      judgeEpoch(3, 3, settings),
    ];
    for (const refusal of refusals) expect(refusal?.reconnectAfterMs).toBeGreaterThan(0);
  });
});

describe("an epoch", () => {
  it("is taken exactly when it is higher than what is known, and else the known one is told", () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), (epoch, known) => {
        const refusal = judgeEpoch(epoch, known, settings);
        if (epoch > known) expect(refusal).toBeNull();
        else expect(refusal).toMatchObject({ code: "agent_conflict", sessionEpoch: known });
      }),
    );
  });
});

describe("an epoch far above the last", () => {
  it("is refused, so that a copy cannot use up those that are left to the original", () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.nat(), (epoch, known) => {
        fc.pre(epoch - known > 2 ** 32);
        expect(judgeEpoch(epoch, known, settings)).toMatchObject({ code: "agent_conflict", sessionEpoch: known });
      }),
    );
    expect(judgeEpoch(2 ** 32, 0, settings)).toBeNull();
  });
});

describe("the connections on their way", () => {
  const connection = fc.record({ sessionEpoch: fc.nat({ max: 5 }), acceptedAt: fc.nat({ max: 5 }) });

  it("never stay more than there are seats; the highest epochs stay, and the newest do", () => {
    fc.assert(
      fc.property(fc.array(connection, { maxLength: 12 }), (connections) => {
        const out = crowdedOut(connections, 4);
        const stay = connections.filter((each) => !out.includes(each));
        expect(stay.length).toBe(Math.min(4, connections.length));
        for (const gone of out) {
          expect(stay.filter(({ sessionEpoch }) => sessionEpoch >= gone.sessionEpoch).length).toBeGreaterThanOrEqual(2);
          expect(stay.filter(({ acceptedAt }) => acceptedAt >= gone.acceptedAt).length).toBeGreaterThanOrEqual(2);
        }
      }),
    );
  });

  it("are never crowded out by what is repeated: only the same or a higher epoch takes the latest attempt's place", () => {
    const seats = DEFAULTS.agent.greetingConnections;
    const knock = fc.record({ isAgent: fc.boolean(), back: fc.nat({ max: 9 }), laterBy: fc.nat({ max: 3 }) });
    fc.assert(
      fc.property(fc.array(knock, { maxLength: 60 }), (knocks) => {
        let latest = { sessionEpoch: 10, acceptedAt: 0 };
        let seated: readonly (typeof latest)[] = [latest];
        for (const { isAgent, back, laterBy } of knocks) {
          const acceptedAt = (seated.at(-1)?.acceptedAt ?? 0) + laterBy;
          // The agent comes with the next epoch; a repeated ticket is of an attempt before the latest.
          const sessionEpoch = isAgent ? latest.sessionEpoch + 1 : latest.sessionEpoch - 1 - back;
          const comer = { sessionEpoch, acceptedAt };
          if (isAgent) latest = comer;
          const all = [...seated, comer];
          const out = crowdedOut(all, seats);
          seated = all.filter((each) => !out.includes(each));
          expect(seated).toContain(latest);
          expect(seated.length).toBeLessThanOrEqual(seats);
        }
      }),
    );
  });

  it("leave the newcomer its seat, whatever epochs the others sit with", () => {
    const idle = [1, 2, 3, 4].map((acceptedAt) => ({ sessionEpoch: Number.MAX_SAFE_INTEGER, acceptedAt }));
    expect(crowdedOut([...idle, { sessionEpoch: 1, acceptedAt: 5 }], 4)).toEqual([idle[0]]);
  });
});

describe("a refusal", () => {
  it("is told of once in a while for each code", () => {
    const told = { agent_conflict: 1_000 };
    expect(isNewsworthy(told, "frame_forged", 60_000, 1_001)).toBe(true);
    expect(isNewsworthy(told, "agent_conflict", 60_000, 60_999)).toBe(false);
    expect(isNewsworthy(told, "agent_conflict", 60_000, 61_000)).toBe(true);
  });
});
