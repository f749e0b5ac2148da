import { afterAll, beforeAll, describe, it } from "vitest";
import { AGENT_KILL_POINTS, surviveAgentKill } from "../e2e/agent-kills.ts";
import { startWalk, type Walk } from "../e2e/walk.ts";

describe("SIGKILL of the agent at six seeded points of a provisioning", () => {
  let walk: Walk;
  beforeAll(async () => {
    walk = await startWalk();
  });
  afterAll(async () => {
    await walk?.stop();
  });

  for (const frame of AGENT_KILL_POINTS) {
    it(`ends in syncing or, compensated, in failed after a kill behind frame ${frame}`, async () => {
      console.log(`behind frame ${frame}: ${await surviveAgentKill(walk, frame)}`);
    });
  }
});
