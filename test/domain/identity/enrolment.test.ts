import { describe, expect, it } from "vitest";
import {
  enrolmentAnswerMac,
  enrolmentMac,
  isEnrolmentAnswerMac,
  isEnrolmentMac,
  isSessionTicket,
  knockMessage,
  sessionTicket,
} from "../../../domain/identity/enrolment.ts";

const TOKEN = "ab".repeat(32);
const CLAIM = {
  nodeId: "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0000",
  generation: 1,
  installationId: "11111111-1111-4111-8111-111111111111",
  signingKey: new Uint8Array(32).fill(1),
  sealingKey: new Uint8Array(32).fill(2),
};

describe("an enrolment", () => {
  it("is the token holder's alone, for these keys of this node alone", () => {
    const mac = enrolmentMac(TOKEN, CLAIM);
    expect(isEnrolmentMac(TOKEN, CLAIM, mac)).toBe(true);
    const others = [
      { ...CLAIM, nodeId: "another" },
      { ...CLAIM, generation: 2 },
      { ...CLAIM, installationId: "another" },
      { ...CLAIM, signingKey: new Uint8Array(32).fill(9) },
      { ...CLAIM, sealingKey: new Uint8Array(32).fill(9) },
      { ...CLAIM, signingKey: CLAIM.sealingKey, sealingKey: CLAIM.signingKey },
    ];
    for (const other of others) expect(isEnrolmentMac(TOKEN, other, mac)).toBe(false);
    expect(isEnrolmentMac("cd".repeat(32), CLAIM, mac)).toBe(false);
    expect(isEnrolmentMac(TOKEN, CLAIM, mac.subarray(1))).toBe(false);
  });

  it("is answered by who knows the token, for this one request", () => {
    const request = enrolmentMac(TOKEN, CLAIM);
    const result = new Uint8Array([1, 2, 3]);
    const mac = enrolmentAnswerMac(TOKEN, request, result);
    expect(isEnrolmentAnswerMac(TOKEN, request, result, mac)).toBe(true);
    expect(isEnrolmentAnswerMac(TOKEN, request, new Uint8Array([1, 2, 4]), mac)).toBe(false);
    expect(isEnrolmentAnswerMac(TOKEN, new Uint8Array(32), result, mac)).toBe(false);
    expect(isEnrolmentAnswerMac("cd".repeat(32), request, result, mac)).toBe(false);
  });
});

describe("a session ticket", () => {
  const subject = { nodeId: CLAIM.nodeId, generation: 1, installationId: CLAIM.installationId, sessionEpoch: 4 };

  it("opens the door for one epoch of one installation, and does not show the token", () => {
    const ticket = sessionTicket(TOKEN, subject);
    expect(ticket).toMatch(/^[0-9a-f]{64}$/);
    expect(ticket).not.toBe(TOKEN);
    expect(isSessionTicket(TOKEN, subject, ticket)).toBe(true);
    for (const other of [{ sessionEpoch: 5 }, { generation: 2 }, { installationId: "x" }, { nodeId: "x" }]) {
      expect(isSessionTicket(TOKEN, { ...subject, ...other }, ticket)).toBe(false);
    }
  });

  it("is signed for by its installation for that one connection", () => {
    const message = knockMessage(subject);
    for (const other of [{ sessionEpoch: 5 }, { generation: 2 }, { installationId: "x" }, { nodeId: "x" }]) {
      expect(knockMessage({ ...subject, ...other })).not.toEqual(message);
    }
  });

  it.each(["", "zz".repeat(32), "a", TOKEN])("is not %j", (ticket) => {
    expect(isSessionTicket(TOKEN, subject, ticket)).toBe(false);
  });
});
