import fc from "fast-check";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { BridgeProcess } from "./support/bridge-process.ts";
import { FakeEdge } from "./support/fake-edge.ts";
import { expectHonestSession } from "./support/honest.ts";
import { fileScope } from "./support/scope.ts";
import { beginCall, frame, grpcMessage, PREFACE, TICKET_HEADERS, Wire } from "./support/wire.ts";

/** How much one attack may leave behind, buffers that the runtime keeps included. */
const GROWTH_MIB = 60;
const PATIENCE_MS = 50;

const scope = fileScope();
let bridge: BridgeProcess;

beforeAll(async () => {
  const edge = await FakeEdge.start();
  edge.isEchoing = true;
  scope(() => edge.stop());
  bridge = await BridgeProcess.start({ EDGE_URL: edge.url }, { scope });
  await expectHonestSession(bridge);
});
afterEach(async () => {
  expect(bridge.isAlive).toBe(true);
  await expectHonestSession(bridge);
  expect(bridge.output).not.toMatch(/"level":[56]0/);
});

const port = () => Number(new URL(bridge.url).port);

/** Connections of their own for each of the samples, some at a time. */
async function attack(samples: readonly Uint8Array[], greeting: Uint8Array = new Uint8Array()): Promise<void> {
  const before = bridge.residentMiB;
  const left = [...samples];
  const attacker = async () => {
    for (let bytes = left.pop(); bytes !== undefined; bytes = left.pop()) {
      const wire = await Wire.open(port());
      await wire.spend(Buffer.concat([greeting, bytes]), PATIENCE_MS);
    }
  };
  await Promise.all(Array.from({ length: 16 }, attacker));
  expect(bridge.residentMiB - before).toBeLessThan(GROWTH_MIB);
}

const GREETING = Buffer.concat([PREFACE, frame("settings", 0, 0), frame("settings", 1, 0)]);
const bytes = fc.uint8Array({ maxLength: 2_000 });
/** Frames of any type with any flags on any stream, whose length may lie. */
const anyFrame = fc
  .record({ type: fc.nat(11), flags: fc.nat(255), stream: fc.nat(9), payload: fc.uint8Array({ maxLength: 300 }) })
  .chain(({ type, flags, stream, payload }) =>
    fc
      .oneof({ weight: 4, arbitrary: fc.constant(payload.length) }, fc.nat(2 ** 24 - 1))
      .map((length) => frame(type, flags, stream, payload, length)),
  );
const method = fc.constantFrom("Enroll", "Session", "Heartbeat", "Report");
/** Calls that begin well and go on with anything, within gRPC's framing and beside it. */
const anyCall = fc
  .record({
    method,
    body: fc.uint8Array({ maxLength: 500 }),
    flag: fc.nat(3),
    lie: fc.option(fc.nat(2 ** 32 - 1)),
    encoding: fc.constantFrom("identity", "gzip", "deflate", "made-up"),
    flags: fc.nat(1),
    hasTicket: fc.boolean(),
  })
  .map(({ method, body, flag, lie, encoding, flags, hasTicket }) => {
    const message = grpcMessage(body, { compressed: flag, ...(lie === null ? {} : { length: lie }) });
    const headers = { "grpc-encoding": encoding, ...(hasTicket ? TICKET_HEADERS : {}) };
    return Buffer.concat([beginCall(1, method, headers), frame("data", flags, 1, message)]);
  });

describe("a bridge that is sent", () => {
  it("random bytes goes on, and holds nothing of them", async () => {
    await attack(fc.sample(bytes, 300));
  });

  it("random bytes after HTTP/2's greeting goes on, and holds nothing of them", async () => {
    await attack(fc.sample(bytes, 300), GREETING);
  });

  it("frames that make no sense goes on, and holds nothing of them", async () => {
    const frames = fc.array(anyFrame, { minLength: 1, maxLength: 12 }).map((parts) => Buffer.concat(parts));
    await attack(fc.sample(frames, 300), GREETING);
  });

  it("calls that carry anything goes on, and holds nothing of them", async () => {
    await attack(fc.sample(anyCall, 400), GREETING);
    // So that it is known that they came as far as the bridge's own rules.
    expect(await bridge.metric('orrery_bridge_refusals_total{code="invalid_request"}')).toBeGreaterThan(0);
  });

  it("calls that are cut off anywhere goes on, and holds nothing of them", async () => {
    const cut = fc.tuple(anyCall, fc.double({ min: 0, max: 1, noNaN: true }));
    const samples = fc.sample(cut, 300).map(([call, share]) => call.subarray(0, Math.floor(call.length * share)));
    await attack(samples, GREETING);
  });
});
