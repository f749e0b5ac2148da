import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chainHeight } from "../../dev/demo/node-life.ts";
import { KILL_POINTS } from "./kill-points.ts";
import { AGENT_WAYS, footprint, requestNode, startWalk, untilSagaEnded, untilState, type Walk } from "./walk.ts";
import { surviveWorkerKill } from "./worker-kills.ts";

describe.each(AGENT_WAYS)("a node on a whole deployment (%s)", (way) => {
  let walk: Walk;
  beforeAll(async () => {
    walk = await startWalk({ way });
  });
  afterAll(async () => {
    await walk?.stop();
  });

  it("gets healthy, serves its RPC, survives a restart of the Worker and of its agent, and ends without a trace", async () => {
    const { stack } = walk;
    const nodeId = await requestNode(stack);
    expect((await untilSagaEnded(stack, nodeId, "provision-node")).status).toBe("succeeded");
    const node = await untilState(stack, nodeId, ["healthy"]);
    expect(await chainHeight(node)).toBeGreaterThanOrEqual(0);
    expect(await footprint(stack, nodeId)).toEqual({ hosts: 1, agents: 1, chainProcesses: 1 });

    await stack.killWorker();
    await stack.startWorker();
    await untilState(stack, nodeId, ["healthy"]);
    const events = await stack.api.events(nodeId);
    expect(events.filter((event) => event.body.to === "down")).toEqual([]);

    await stack.api.terminate(nodeId);
    expect((await untilSagaEnded(stack, nodeId, "terminate-node")).status).toBe("succeeded");
    await untilState(stack, nodeId, ["terminated"]);
    expect(await footprint(stack, nodeId)).toEqual({ hosts: 0, agents: 0, chainProcesses: 0 });
  });

  // What a saga does when its Worker dies does not depend on the agent's way.
  const points = way === "bridge by stream" ? KILL_POINTS : [];
  for (const point of points.filter(({ name }) => name.endsWith("effect done"))) {
    it(`survives SIGKILL of the Worker at "${point.name}"`, async () => {
      await surviveWorkerKill(walk, point);
    });
  }
});
