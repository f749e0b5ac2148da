import { randomBytes } from "node:crypto";
import { create, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { errorCodeOf } from "../../domain/errors.ts";
import { sealFrame } from "../../domain/identity/frame-seal.ts";
import { reconnectDelayMs, spreadDelayMs } from "../../ops-agent/session/backoff.ts";
import { SealedChannel } from "../../ops-agent/session/sealing.ts";
import { sessionUrl } from "../../ops-agent/transport/websocket.ts";
import { agentFrame, parseFrame } from "../../ops-agent/transport/websocket-frames.ts";
import {
  ControlBodySchema,
  ControlMessageSchema,
  type Sealed,
  SealedSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";

const keys = () => ({ agent: new Uint8Array(32).fill(1), control: new Uint8Array(32).fill(2) });

function sealedCancel(counter: number, commandId = "c"): Sealed {
  const body = create(ControlBodySchema, { body: { case: "cancelCommand", value: { commandId } } });
  const frame = sealFrame(keys().control, counter, toBinary(ControlBodySchema, body));
  return create(SealedSchema, { ...frame, counter: BigInt(counter) });
}

const cancel = toBinary(
  ControlMessageSchema,
  create(ControlMessageSchema, { body: { case: "sealed", value: sealedCancel(1) } }),
);

function codeOf(action: () => unknown): string | null {
  try {
    action();
    return null;
  } catch (error) {
    return errorCodeOf(error);
  }
}

describe("parseFrame", () => {
  it("reads what the control plane sends", () => {
    const frame = parseFrame(cancel);
    expect(frame.ok && frame.message.body.case).toBe("sealed");
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
      fc.property(fc.nat(cancel.length), fc.uint8Array({ maxLength: 32 }), fc.nat(255), (cut, tail, flip) => {
        const bytes = Uint8Array.from([...cancel.subarray(0, cut), ...tail]);
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

describe("agentFrame", () => {
  it("is bytes, but for a Ping, which is a text", () => {
    expect(agentFrame({ body: { case: "ping", value: {} } })).toBe("ping");
    expect(agentFrame({ body: { case: "hello", value: randomBytes(3) } })).toBeInstanceOf(Uint8Array);
  });
});

describe("a session's sealed frames", () => {
  it("are opened in their order", () => {
    const channel = new SealedChannel(keys());
    expect([1, 2, 3].map((counter) => channel.open(sealedCancel(counter))?.case)).toEqual(
      Array.from({ length: 3 }, () => "cancelCommand"),
    );
  });

  it("are not believed when one comes twice, is left out, or is another direction's", () => {
    const channel = new SealedChannel(keys());
    channel.open(sealedCancel(1));
    expect(codeOf(() => channel.open(sealedCancel(1)))).toBe("frame_replayed");
    expect(codeOf(() => channel.open(sealedCancel(3)))).toBe("frame_out_of_order");
    const { agent, control } = keys();
    const reversed = new SealedChannel({ agent: control, control: agent });
    expect(codeOf(() => reversed.open(sealedCancel(1)))).toBe("frame_forged");
  });

  it("are not believed when anything in them was altered", () => {
    const genuine = sealedCancel(1);
    const altered = fc.oneof(
      fc.record({ body: fc.uint8Array({ maxLength: 64 }) }),
      fc.record({ mac: fc.uint8Array({ maxLength: 64 }) }),
      fc.record({ counter: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }) }),
    );
    fc.assert(
      fc.property(altered, (change) => {
        const frame = { ...genuine, ...change };
        fc.pre(Object.entries(change).some(([name, value]) => !isSame(value, Object.entries(genuine), name)));
        expect(codeOf(() => new SealedChannel(keys()).open(frame))).toBe("frame_forged");
      }),
    );
  });

  it("say nothing when a body is none that this agent knows, and the next is believed", () => {
    const channel = new SealedChannel(keys());
    for (const [index, body] of [new Uint8Array(), Uint8Array.from([255, 255]), Uint8Array.from([0x7a, 0])].entries()) {
      const frame = sealFrame(keys().control, index + 1, body);
      expect(channel.open(create(SealedSchema, { ...frame, counter: BigInt(index + 1) }))).toBeNull();
    }
    expect(channel.open(sealedCancel(4))?.case).toBe("cancelCommand");
  });
});

function isSame(value: unknown, entries: readonly (readonly [string, unknown])[], name: string): boolean {
  const other = entries.find(([key]) => key === name)?.[1];
  if (value instanceof Uint8Array && other instanceof Uint8Array) return Buffer.compare(value, other) === 0;
  return value === other;
}

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

describe("spreadDelayMs", () => {
  it("spreads a fleet evenly over ten seconds, or less when the maximum is less", () => {
    expect(spreadDelayMs(30_000, 0.5)).toBe(5_000);
    expect(spreadDelayMs(1_000, 0.5)).toBe(500);
  });
});

describe("sessionUrl", () => {
  it("turns the control plane's address into the session's", () => {
    expect(sessionUrl("http://127.0.0.1:8787/", "n1")).toBe("ws://127.0.0.1:8787/api/v1/agents/n1/session");
    expect(sessionUrl("https://orrery.example/base", "n1")).toBe("wss://orrery.example/base/api/v1/agents/n1/session");
  });
});
