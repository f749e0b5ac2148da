import { expect, it } from "vitest";
import { BridgeProcess } from "../agent-bridge/gateway/support/bridge-process.ts";
import { FakeEdge } from "../agent-bridge/gateway/support/fake-edge.ts";
import { flood, openFilesLimit } from "../agent-bridge/gateway/support/flood.ts";
import { expectHonestSession } from "../agent-bridge/gateway/support/honest.ts";

const CONNECTIONS = 10_000;
/** Files that this process and the bridge need beside the flood's connections. */
const OTHER_FILES = 500;
/** A minute without a session, a quarter of one until it is seen, and room for a busy machine. */
const CLOSED_WITHIN_MS = 100_000;
const ROUNDS = 3;

it("ten thousand connections without enrolment, again and again, are closed by the bridge and leave nothing", async () => {
  const connections = Math.min(CONNECTIONS, openFilesLimit() - OTHER_FILES);
  if (connections < CONNECTIONS) {
    console.log(`Only ${connections} connections: this machine's limit of open files is ${openFilesLimit()}.`);
  }
  await using edge = await FakeEdge.start();
  edge.isEchoing = true;
  const bridge = await BridgeProcess.start({ EDGE_URL: edge.url });
  await expectHonestSession(bridge);
  for (let round = 1; round <= ROUNDS; round += 1) {
    const since = performance.now();
    const flooded = await flood(bridge, connections, (wires) => Promise.all(wires.map(({ closed }) => closed)));
    const seconds = Math.round((performance.now() - since) / 1_000);
    const { beforeMiB, duringMiB, afterMiB, honestMs } = flooded;
    const memory = [beforeMiB, duringMiB, afterMiB].map((mib) => `${Math.round(mib)} MiB`).join(" -> ");
    console.log(
      `round ${round}: ${memory}; an agent's session took ${Math.round(honestMs)} ms; all over in ${seconds} s`,
    );
    expect(seconds * 1_000).toBeLessThan(CLOSED_WITHIN_MS);
    expect(((duringMiB - beforeMiB) * 1024) / connections).toBeLessThan(100);
    // Memory that the runtime keeps from the first round serves the next ones.
    if (round > 1) expect(afterMiB - beforeMiB).toBeLessThan(100);
  }
  await expectHonestSession(bridge);
});
