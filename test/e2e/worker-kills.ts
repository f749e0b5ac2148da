import { expect } from "vitest";
import type { KillPoint } from "./kill-points.ts";
import { footprint, requestNode, untilSagaEnded, untilState, type Walk } from "./walk.ts";

/** Lives one node's life with the Worker killed at `point`, and checks that nothing is doubled, stuck or left behind. */
export async function surviveWorkerKill(walk: Walk, point: KillPoint): Promise<void> {
  const { stack } = walk;
  const isProvision = point.workflow === "provision-node";
  const killed = isProvision ? point.arm(walk) : null;
  const nodeId = await requestNode(stack);
  if (killed !== null) await restartAfter(walk, killed);

  const provisioned = await untilSagaEnded(stack, nodeId, "provision-node");
  expect(provisioned.status).toBe("succeeded");
  await untilState(stack, nodeId, ["syncing", "healthy"]);
  expect(await footprint(stack, nodeId)).toEqual({ hosts: 1, agents: 1, chainProcesses: 1 });
  expect(createdHosts(walk, nodeId)).toBe(1);

  const killedAtEnd = isProvision ? null : point.arm(walk);
  await stack.api.terminate(nodeId);
  if (killedAtEnd !== null) await restartAfter(walk, killedAtEnd);
  const terminated = await untilSagaEnded(stack, nodeId, "terminate-node");
  expect(terminated.status).toBe("succeeded");
  await untilState(stack, nodeId, ["terminated"]);
  expect(await footprint(stack, nodeId)).toEqual({ hosts: 0, agents: 0, chainProcesses: 0 });
}

async function restartAfter({ stack }: Walk, killed: Promise<void>): Promise<void> {
  await killed;
  await stack.startWorker();
}

/** Creates that reached the host runner through the interposer since the node was asked for. */
function createdHosts(walk: Walk, nodeId: string): number {
  const creates = walk.provider.exchanges.filter(
    ({ method, path, status, requestBody }) =>
      method === "POST" && path === "/hosts" && status === 201 && requestBody.includes(nodeId),
  );
  return creates.length;
}
