import fc from "fast-check";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { makeCertificates } from "../../ops-agent/support/certificates.ts";
import { testDirectory } from "../../ops-agent/support/directory.ts";
import { BridgeProcess } from "./support/bridge-process.ts";
import { FakeEdge } from "./support/fake-edge.ts";
import { ATTACKS, attack } from "./support/fuzz.ts";
import { expectHonestSession } from "./support/honest.ts";
import { fileScope } from "./support/scope.ts";

/** How much one attack may leave behind, buffers that the runtime keeps included. */
const GROWTH_MIB = 60;
const SAMPLES = 300;

const scope = fileScope();
let edge: FakeEdge;
let bridge: BridgeProcess;

beforeAll(async () => {
  edge = await FakeEdge.start();
  edge.isEchoing = true;
  scope(() => edge.stop());
  bridge = await BridgeProcess.start({ EDGE_URL: edge.url }, { scope });
  await expectHonestSession(bridge);
});
afterEach(async () => {
  await expectHonestSession(bridge);
  expectNoFault(bridge);
});

/** Errors are logged when something went wrong that was not foreseen. */
function expectNoFault({ isAlive, output }: BridgeProcess): void {
  expect(isAlive).toBe(true);
  expect(output).not.toMatch(/"level":[56]0/);
}

async function expectLittleLeft(target: BridgeProcess, samples: readonly Uint8Array[]): Promise<void> {
  const before = target.residentMiB;
  await attack(Number(new URL(target.url).port), samples);
  expect(target.residentMiB - before).toBeLessThan(GROWTH_MIB);
}

describe("a bridge that is sent", () => {
  it.each(Object.entries(ATTACKS))("%s goes on, and holds nothing of them", async (_what, samples) => {
    await expectLittleLeft(bridge, fc.sample(samples, SAMPLES));
  });

  it("calls with anything in them knows them by its own rules", async () => {
    const refusals = 'orrery_bridge_refusals_total{code="invalid_request"}';
    const before = await bridge.metric(refusals);
    await attack(
      Number(new URL(bridge.url).port),
      fc.sample(ATTACKS["calls that carry anything"] ?? fc.constant(new Uint8Array()), SAMPLES),
    );
    expect(await bridge.metric(refusals)).toBeGreaterThan(before);
  });

  it("any of it where TLS is spoken goes on all the same", async () => {
    const { cert, key } = makeCertificates(testDirectory());
    const secure = await BridgeProcess.start({ EDGE_URL: edge.url, TLS_CERT_FILE: cert, TLS_KEY_FILE: key });
    for (const samples of Object.values(ATTACKS)) await expectLittleLeft(secure, fc.sample(samples, SAMPLES / 3));
    expectNoFault(secure);
  });
});
