import { create, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { reconnectDelayMs } from "../../ops-agent/session/backoff.ts";
import { parseFrame } from "../../ops-agent/session/frames.ts";
import { sessionUrl } from "../../ops-agent/session/session.ts";
import { ControlMessageSchema } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";

const command = toBinary(
  ControlMessageSchema,
  create(ControlMessageSchema, { body: { case: "command", value: { id: "a", type: 2, remainingTtlMs: 1_000n } } }),
);

describe("parseFrame", () => {
  it("reads what the control plane sends", () => {
    const frame = parseFrame(command);
    expect(frame.ok && frame.body.case).toBe("command");
  });

  it("answers any bytes without throwing", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 512 }), (bytes) => {
        expect(typeof parseFrame(bytes).ok).toBe("boolean");
      }),
      { numRuns: 5_000 },
    );
  });

  it("answers truncated, extended and flipped frames without throwing", () => {
    fc.assert(
      fc.property(fc.nat(command.length), fc.uint8Array({ maxLength: 32 }), fc.nat(255), (cut, tail, flip) => {
        const bytes = Uint8Array.from([...command.subarray(0, cut), ...tail]);
        if (bytes.length > 0) bytes[flip % bytes.length] = flip;
        expect(typeof parseFrame(bytes).ok).toBe("boolean");
      }),
      { numRuns: 5_000 },
    );
  });

  it("ignores a message of a later protocol", () => {
    // Field 15 with an empty message in it.
    expect(parseFrame(Uint8Array.from([0x7a, 0x00]))).toEqual({
      ok: false,
      reason: "no message that this agent knows",
    });
  });
});

describe("reconnectDelayMs", () => {
  it("is spread over a cap that doubles from half a second to the maximum", () => {
    expect(reconnectDelayMs(0, 30_000, 0.999)).toBe(499);
    expect(reconnectDelayMs(3, 30_000, 0.5)).toBe(2_000);
    fc.assert(
      fc.property(fc.nat(10_000), fc.double({ min: 0, max: 0.999999, noNaN: true }), (failures, random) => {
        const delay = reconnectDelayMs(failures, 30_000, random);
        expect(delay >= 0 && delay < 30_000).toBe(true);
      }),
    );
  });
});

describe("sessionUrl", () => {
  it("turns the control plane's address into the session's", () => {
    expect(sessionUrl("http://127.0.0.1:8787/", "n1")).toBe("ws://127.0.0.1:8787/api/v1/agents/n1/session");
    expect(sessionUrl("https://orrery.example/base", "n1")).toBe("wss://orrery.example/base/api/v1/agents/n1/session");
  });
});
