import fc from "fast-check";
import { expect, it } from "vitest";
import { BridgeProcess } from "../agent-bridge/gateway/support/bridge-process.ts";
import { FakeEdge } from "../agent-bridge/gateway/support/fake-edge.ts";
import { ATTACKS, attack } from "../agent-bridge/gateway/support/fuzz.ts";
import { expectHonestSession } from "../agent-bridge/gateway/support/honest.ts";

const MINUTES = 5;
const SAMPLES = 1_000;
const GROWTH_MIB = 150;
/** What the first of them takes, the runtime keeps for those that follow. */
const SETTLING_MINUTES = 1;

it(`a bridge that is sent garbage for ${MINUTES} minutes serves agents all the while, and does not grow`, async () => {
  await using edge = await FakeEdge.start();
  edge.isEchoing = true;
  const bridge = await BridgeProcess.start({ EDGE_URL: edge.url });
  const port = Number(new URL(bridge.url).port);
  const since = Date.now();
  const until = since + MINUTES * 60_000;
  let seed = Date.now();
  let sent = 0;
  let settledMiB: number | null = null;
  while (Date.now() < until) {
    for (const [what, samples] of Object.entries(ATTACKS)) {
      seed += 1;
      await attack(port, fc.sample(samples, { seed, numRuns: SAMPLES }));
      sent += SAMPLES;
      const context = `after ${what}, seed ${seed}: ${bridge.output}`;
      expect(bridge.isAlive, context).toBe(true);
      expect(bridge.output, context).not.toMatch(/"level":[56]0/);
      await expectHonestSession(bridge);
    }
    if (Date.now() - since > SETTLING_MINUTES * 60_000) settledMiB ??= bridge.residentMiB;
    expect(bridge.residentMiB - (settledMiB ?? bridge.residentMiB)).toBeLessThan(GROWTH_MIB);
    edge.sessions.length = 0;
  }
  console.log(`${sent} attacks: ${Math.round(settledMiB ?? 0)} MiB -> ${Math.round(bridge.residentMiB)} MiB`);
});
