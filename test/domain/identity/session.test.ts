import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { controlSigners, signerFor } from "../../../domain/identity/control-key.ts";
import { frameProblem, sealFrame } from "../../../domain/identity/frame-seal.ts";
import {
  challengeMessage,
  commandMessage,
  exchangePublicKey,
  goodbyeMessage,
  handshakeTranscript,
  proofMessage,
  sessionKeys,
} from "../../../domain/identity/handshake.ts";
import { isSignature, sign, signingPublicKey } from "../../../domain/identity/signature.ts";

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
const some = fc.uint8Array({ maxLength: 64 });

describe("a handshake", () => {
  it("gives both sides the same two keys, whatever was said in it", () => {
    fc.assert(
      fc.property(bytes(32), bytes(32), some, some, (agent, control, hello, challenge) => {
        const handshake = handshakeTranscript(hello, challenge);
        const ofAgent = sessionKeys(agent, exchangePublicKey(control), handshake);
        const ofControl = sessionKeys(control, exchangePublicKey(agent), handshake);
        expect(ofAgent).not.toBeNull();
        expect(ofAgent).toEqual(ofControl);
        expect(ofAgent?.agent).not.toEqual(ofAgent?.control);
      }),
      { numRuns: 30 },
    );
  });

  it("gives other keys when anything said in it was altered", () => {
    const [agent, control] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)];
    const keys = (hello: string, challenge: string) => {
      const encoder = new TextEncoder();
      const handshake = handshakeTranscript(encoder.encode(hello), encoder.encode(challenge));
      return sessionKeys(agent, exchangePublicKey(control), handshake);
    };
    expect(keys("hello", "challenge")).not.toEqual(keys("hello", "challenge2"));
    expect(keys("hello", "challenge")).not.toEqual(keys("hellochal", "lenge"));
  });

  it.each([new Uint8Array(0), new Uint8Array(32), new Uint8Array(33).fill(9)])(
    "takes no bad key from its peer",
    (bad) => {
      expect(sessionKeys(new Uint8Array(32).fill(1), bad, new Uint8Array(32))).toBeNull();
    },
  );

  it("signs each thing for its own purpose alone", () => {
    const secret = new Uint8Array(32).fill(7);
    const [one, two] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)];
    const to = { nodeId: "n", installationId: "i", sessionEpoch: 1 };
    const messages = [
      challengeMessage(one),
      proofMessage(one, two),
      goodbyeMessage(one, two),
      commandMessage(to, two),
      commandMessage({ ...to, sessionEpoch: 2 }, two),
      commandMessage({ ...to, nodeId: "ni", installationId: "" }, two),
    ];
    for (const signed of messages) {
      const signature = sign(secret, signed);
      const accepted = messages.filter((message) => isSignature(signingPublicKey(secret), message, signature));
      expect(accepted).toEqual([signed]);
    }
  });
});

describe("a signature", () => {
  it("is wrong, and nothing worse, for any bytes that are none", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 80 }),
        some,
        fc.uint8Array({ maxLength: 80 }),
        (key, message, signature) => {
          expect(isSignature(key, message, signature)).toBe(false);
        },
      ),
      { numRuns: 50 },
    );
  });
});

describe("the control keys", () => {
  const secret = "m".repeat(64);

  it("are the version's own and the one before, and the same at every start", () => {
    expect(controlSigners(secret, 1).map(({ keyId }) => keyId)).toEqual(["control-1"]);
    expect(controlSigners(secret, 3).map(({ keyId }) => keyId)).toEqual(["control-3", "control-2"]);
    expect(controlSigners(secret, 3)[1]).toEqual(controlSigners(secret, 2)[0]);
  });

  it("speak to each agent with the newest that it trusts", () => {
    const signers = controlSigners(secret, 2);
    expect(signerFor(signers, ["control-1"]).keyId).toBe("control-1");
    expect(signerFor(signers, ["control-1", "control-2"]).keyId).toBe("control-2");
    expect(signerFor(signers, ["control-9"]).keyId).toBe("control-2");
  });
});

describe("a sealed frame", () => {
  const key = new Uint8Array(32).fill(5);

  it("is believed once, in its place", () => {
    fc.assert(
      fc.property(some, fc.nat({ max: 1_000 }), fc.nat({ max: 1_000 }), (body, last, counter) => {
        const problem = frameProblem(key, last, sealFrame(key, counter, body));
        if (counter === last + 1) expect(problem).toBeNull();
        else expect(problem).toBe(counter <= last ? "frame_replayed" : "frame_out_of_order");
      }),
    );
  });

  it("is forged as soon as one bit of it is another", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 40 }), fc.nat(), fc.nat({ max: 7 }), (body, at, bit) => {
        const frame = sealFrame(key, 1, body);
        const flip = (bytes: Uint8Array) => {
          const index = at % bytes.length;
          return bytes.map((byte, position) => (position === index ? byte ^ (1 << bit) : byte));
        };
        expect(frameProblem(key, 0, { ...frame, body: flip(body) })).toBe("frame_forged");
        expect(frameProblem(key, 0, { ...frame, mac: flip(frame.mac) })).toBe("frame_forged");
        expect(frameProblem(flip(key), 0, frame)).toBe("frame_forged");
        expect(frameProblem(key, 1, { ...frame, counter: 2 })).toBe("frame_forged");
      }),
    );
  });

  it.each([Number.NaN, 0.5, -1, 2 ** 53])("is forged with the counter %d", (counter) => {
    expect(frameProblem(key, 0, { counter, body: new Uint8Array(1), mac: new Uint8Array(32) })).toBe("frame_forged");
  });
});
