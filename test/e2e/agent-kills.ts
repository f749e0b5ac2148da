import { expect } from "vitest";
import { footprint, requestNode, untilSagaEnded, untilState, type Walk } from "./walk.ts";

const SEED = 20_261_130;
/** A provisioning exchanges about this many frames that are not pings; a later point is reached by none. */
const FRAMES_OF_A_PROVISIONING = 9;
const POINTS = 6;

/** The frames after which the agent is killed: six different ones, the same in every run. */
export const AGENT_KILL_POINTS: readonly number[] = choosePoints(SEED);

function choosePoints(seed: number): number[] {
  const candidates = Array.from({ length: FRAMES_OF_A_PROVISIONING }, (_, index) => index + 1);
  const random = mulberry32(seed);
  const chosen: number[] = [];
  while (chosen.length < POINTS) {
    const [point] = candidates.splice(Math.floor(random() * candidates.length), 1);
    if (point !== undefined) chosen.push(point);
  }
  return chosen.sort((a, b) => a - b);
}

/** A small seeded generator of numbers in [0, 1). */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/**
 * Provisions a node whose agent is killed after its n-th frame and started again: it ends in `syncing` (or beyond), or
 * compensated in `failed`; never two of anything. @returns how the saga ended
 */
export async function surviveAgentKill(walk: Walk, frameNumber: number): Promise<string> {
  const { stack, sessions } = walk;
  const host = Promise.withResolvers<string>();
  const nodeId = await requestNode(stack);
  let frames = 0;
  const killed = sessions.once({
    matches: (frame) =>
      frame.path.includes(nodeId) && !["ping", "pong"].includes(frame.kind) && ++frames === frameNumber,
    boundary: "after",
    act: async () => {
      const hosts = await stack.hostRunner.hosts();
      const own = hosts.find(({ tag }) => tag.includes(nodeId));
      if (own === undefined) throw new Error(`Node ${nodeId} has a session and no host.`);
      await stack.hostRunner.signalAgent(own.providerHostId, "SIGKILL");
      host.resolve(own.providerHostId);
    },
  });
  await killed;
  await stack.hostRunner.startAgent(await host.promise);

  const saga = await untilSagaEnded(stack, nodeId, "provision-node");
  const node = await untilState(stack, nodeId, ["syncing", "healthy", "failed"]);
  const isFailed = node.state === "failed";
  expect(saga.status).toBe(isFailed ? "failed" : "succeeded");
  const count = isFailed ? 0 : 1;
  expect(await footprint(stack, nodeId)).toEqual({ hosts: count, agents: count, chainProcesses: count });
  if (!isFailed) {
    await stack.api.terminate(nodeId);
    await untilSagaEnded(stack, nodeId, "terminate-node");
    expect(await footprint(stack, nodeId)).toEqual({ hosts: 0, agents: 0, chainProcesses: 0 });
  }
  return saga.status;
}
