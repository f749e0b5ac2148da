import { afterAll, beforeAll, describe, it } from "vitest";
import { KILL_POINTS } from "../e2e/kill-points.ts";
import { startWalk, type Walk } from "../e2e/walk.ts";
import { surviveWorkerKill } from "../e2e/worker-kills.ts";

describe("SIGKILL of the Worker at every boundary around every outside effect of both sagas", () => {
  let walk: Walk;
  beforeAll(async () => {
    walk = await startWalk();
  });
  afterAll(async () => {
    await walk?.stop();
  });

  for (const point of KILL_POINTS) {
    it(`ends right after a kill at "${point.name}"`, async () => {
      await surviveWorkerKill(walk, point);
    });
  }
});
