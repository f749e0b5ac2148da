import { afterAll, beforeAll, describe, it } from "vitest";
import { type FleetWalk, startFleetWalk, surviveLoss } from "./fleet-walk.ts";

const AGENTS = 30;
const COMMANDS = 5;
const BRIDGE_AWAY_MS = 2_000;

describe(`${AGENTS} agents behind one bridge, ${COMMANDS} of them with a command that runs`, () => {
  let walk: FleetWalk;
  beforeAll(async () => {
    walk = await startFleetWalk(AGENTS, 20);
  });
  afterAll(async () => {
    await walk?.stop();
  });

  it("come back after a SIGKILL of the bridge, spread, without a node down or a command lost or run twice", async () => {
    const { bridge } = walk;
    await surviveLoss(walk, COMMANDS, {
      kill: () => bridge.kill(),
      start: () => bridge.start(),
      awayMs: BRIDGE_AWAY_MS,
    });
  });
});
