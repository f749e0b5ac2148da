import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { until } from "../../dev/ready.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { StolenState } from "../e2e/clones.ts";
import { hostOf, requestNode, startWalk, untilSagaEnded, untilState, type Walk } from "../e2e/walk.ts";
import { WatchedNode } from "../e2e/watched-node.ts";

const SOON_MS = 30_000;
const { conflictRetryMs, reconnectMaxMs, holderAnswerMs } = DEFAULTS.agent;
/** A wait that was asked for, the jitter on top of it, and the question to whoever holds the session. */
const NEXT_KNOCK_MS = conflictRetryMs + reconnectMaxMs + holderAnswerMs;
const BACK_MS = NEXT_KNOCK_MS + SOON_MS;
const KNOCKS = 3;

describe("an agent and the clone of its whole state directory, in real time", () => {
  let walk: Walk;
  let node: WatchedNode;
  let hostId: string;
  let clone: StolenState;

  beforeAll(async () => {
    walk = await startWalk();
    const nodeId = await requestNode(walk.stack);
    expect((await untilSagaEnded(walk.stack, nodeId, "provision-node")).status).toBe("succeeded");
    await untilState(walk.stack, nodeId, ["healthy"]);
    node = new WatchedNode(walk.stack.api, nodeId);
    hostId = await hostOf(walk.stack, nodeId);
  });
  afterEach(async () => {
    await clone?.destroy();
  });
  afterAll(async () => {
    await walk?.stop();
  });

  it("leave the agent undisturbed: the clone knocks once a minute, and is refused each time", async () => {
    const connections = await node.connections();
    clone = new StolenState(walk.hostDir(hostId));
    clone.start();
    const knocks = await until("the clone to be refused again and again", async () => knocksOf(clone), {
      timeoutMs: KNOCKS * NEXT_KNOCK_MS,
      everyMs: 500,
    });
    const pauses = knocks.slice(1).map((at, index) => at - (knocks[index] ?? 0));
    console.log(`the clone knocked again after, ms: ${JSON.stringify(pauses)}`);
    for (const pause of pauses) {
      expect(pause).toBeGreaterThanOrEqual(conflictRetryMs);
      expect(pause).toBeLessThan(NEXT_KNOCK_MS);
    }
    expect(clone.isRunning).toBe(true);
    // Told of once a minute, so each of these knocks is news.
    await expect.poll(async () => (await node.refusals()).length, { timeout: SOON_MS }).toBe(KNOCKS);
    expect(await node.connections()).toBe(connections);
    await node.expectObedience();
  });

  it("leave the session to the clone that came while the agent was stopped, as long as it is there", async () => {
    await returnAfter(() => clone.stop());
  });

  it("leave it to the clone as long as it answers: one that hangs loses the session to the agent", async () => {
    await returnAfter(async () => clone.signal("SIGSTOP"));
    clone.signal("SIGCONT");
    const connections = await node.connections();
    await expect.poll(() => clone.output, { timeout: SOON_MS }).toContain("agent_conflict");
    expect(await node.connections()).toBe(connections);
    await node.expectObedience();
  });

  /** The agent is stopped, its clone takes the session, the agent finds it taken, and then `leave` is done to the clone. */
  async function returnAfter(leave: () => Promise<void>): Promise<void> {
    const connections = await node.connections();
    const logged = agentLog().length;
    await walk.stack.hostRunner.signalAgent(hostId, "SIGKILL");
    clone = new StolenState(walk.hostDir(hostId));
    clone.start();
    await expect.poll(() => node.connections(), { timeout: SOON_MS }).toBe(connections + 1);
    await walk.stack.hostRunner.startAgent(hostId);
    await expect.poll(() => agentLog().slice(logged), { timeout: SOON_MS }).toContain("present session is alive");
    expect(await node.connections()).toBe(connections + 1);
    await leave();
    const leftAt = performance.now();
    await expect.poll(() => node.connections(), { timeout: BACK_MS }).toBe(connections + 2);
    console.log(`the agent was back after, ms: ${Math.round(performance.now() - leftAt)}`);
    await node.expectObedience();
  }

  function agentLog(): string {
    return readFileSync(join(walk.hostDir(hostId), "agent.log"), "utf8");
  }
});

const refusalSchema = z.looseObject({ time: z.string(), code: z.literal("agent_conflict") });

/** When the clone was refused, once it has been so often enough. An old epoch is mended at once and is no knock of its own. */
function knocksOf({ output }: StolenState): readonly number[] | null {
  const lines = output.split("\n").filter((line) => line.includes("present session is alive"));
  const times = lines.map((line) => Date.parse(refusalSchema.parse(JSON.parse(line)).time));
  return times.length < KNOCKS ? null : times;
}
