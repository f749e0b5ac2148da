import { afterEach, beforeEach, describe, it } from "vitest";
import { type FleetWalk, startFleetWalk, surviveLoss } from "../e2e/fleet-walk.ts";

const AGENTS = 200;
const COMMANDS = 20;
const AWAY_MS = 3_000;
const SET_UP_MS = 300_000;

describe(`${AGENTS} agents behind one bridge, ${COMMANDS} of them with a command that runs`, () => {
  let walk: FleetWalk;
  beforeEach(async () => {
    walk = await startFleetWalk(AGENTS, 20);
  }, SET_UP_MS);
  afterEach(async () => {
    await walk?.stop();
  });

  it("come back after a SIGKILL of the bridge, spread, without a node down or a command lost or run twice", async () => {
    const { bridge } = walk;
    await surviveLoss(walk, COMMANDS, { kill: () => bridge.kill(), start: () => bridge.start(), awayMs: AWAY_MS });
  });

  it("come back after a SIGKILL of the edge in the same way", async () => {
    const { edge } = walk;
    await surviveLoss(walk, COMMANDS, { kill: () => edge.kill(), start: () => edge.start(), awayMs: AWAY_MS });
  });
});
