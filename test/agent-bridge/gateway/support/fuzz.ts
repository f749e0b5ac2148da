import fc from "fast-check";
import { beginCall, frame, grpcMessage, type Method, PREFACE, TICKET_HEADERS, Wire } from "./wire.ts";

const PATIENCE_MS = 50;
const ATTACKERS = 16;

/** What HTTP/2 begins with. */
const GREETING = Buffer.concat([PREFACE, frame("settings", 0, 0), frame("settings", 1, 0)]);
const greeted = (bytes: fc.Arbitrary<Uint8Array>) => bytes.map((rest) => Buffer.concat([GREETING, rest]));

const bytes = fc.uint8Array({ maxLength: 2_000 });

/** A frame of any type with any flags on any stream, whose length may lie. */
const frames = fc
  .record({ type: fc.nat(11), flags: fc.nat(255), stream: fc.nat(9), payload: fc.uint8Array({ maxLength: 300 }) })
  .chain(({ type, flags, stream, payload }) =>
    fc
      .oneof({ weight: 4, arbitrary: fc.constant(payload.length) }, fc.nat(2 ** 24 - 1))
      .map((length) => frame(type, flags, stream, payload, length)),
  );

/** A call that begins well and goes on with anything, within gRPC's framing and beside it. */
const calls = fc
  .record({
    method: fc.constantFrom<Method>("Enroll", "Session", "Heartbeat", "Report"),
    messages: fc.array(fc.uint8Array({ maxLength: 500 }), { maxLength: 3 }),
    compressed: fc.nat(3),
    lie: fc.option(fc.nat(2 ** 32 - 1)),
    encoding: fc.constantFrom("identity", "gzip", "deflate", "made-up"),
    endsStream: fc.nat(1),
    hasTicket: fc.boolean(),
  })
  .map(({ method, messages, compressed, lie, encoding, endsStream, hasTicket }) => {
    const framed = messages.map((one) => grpcMessage(one, { compressed, ...(lie === null ? {} : { length: lie }) }));
    const headers = { "grpc-encoding": encoding, ...(hasTicket ? TICKET_HEADERS : {}) };
    return Buffer.concat([beginCall(1, method, headers), frame("data", endsStream, 1, Buffer.concat(framed))]);
  });

const cutCalls = fc
  .tuple(calls, fc.double({ min: 0, max: 1, noNaN: true }))
  .map(([call, share]) => call.subarray(0, Math.floor(call.length * share)));

/** What an attacker sends by one connection, by its name. */
export const ATTACKS: Readonly<Record<string, fc.Arbitrary<Uint8Array>>> = {
  "random bytes": bytes,
  "random bytes after HTTP/2's greeting": greeted(bytes),
  "frames that make no sense": greeted(
    fc.array(frames, { minLength: 1, maxLength: 12 }).map((parts) => Buffer.concat(parts)),
  ),
  "calls that carry anything": greeted(calls),
  "calls that are cut off anywhere": greeted(cutCalls),
};

/** A connection of its own for each of the samples, some at a time. */
export async function attack(port: number, samples: readonly Uint8Array[]): Promise<void> {
  const left = [...samples];
  const attacker = async () => {
    for (let sample = left.pop(); sample !== undefined; sample = left.pop()) {
      const wire = await Wire.open(port);
      await wire.spend(sample, PATIENCE_MS);
    }
  };
  await Promise.all(Array.from({ length: ATTACKERS }, attacker));
}
