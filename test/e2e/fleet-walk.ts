import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import { expect } from "vitest";
import { type BenchBridge, type Edge, openBridge, startEdge } from "../../bench/edge/places.ts";
import { type Fleet, startFleet } from "../../bench/fleet/fleet.ts";
import type { AgentRecord } from "../../bench/fleet/protocol.ts";
import { requireNoProcesses } from "../../dev/leftovers.ts";
import { until } from "../../dev/ready.ts";

/** Many simulated agents with the real edge and the real bridge: every agent comes through the bridge at first. */
export interface FleetWalk {
  readonly edge: Edge;
  readonly bridge: BenchBridge;
  readonly fleet: Fleet;
  readonly nodeIds: readonly string[];
  stop(): Promise<void>;
}

const RETURN_MS = 60_000;
/** Of the agents, at most so many may be back in the same second. */
const HERD = 1 / 3;
const MAKE_BATCH = 200;

/** Makes the nodes and waits until each one's agent is in session. @param perSecond how many agents begin in a second */
export async function startFleetWalk(agents: number, perSecond: number): Promise<FleetWalk> {
  const directory = mkdtempSync(join(tmpdir(), "orrery-fleet-"));
  const edge = await startEdge({ directory: join(directory, "edge"), clockSpeed: 1, database: "none" });
  const bridge = await openBridge(join(directory, "bridge"), edge.url);
  const fleet = startFleet();
  const walk: FleetWalk = {
    edge,
    bridge,
    fleet,
    nodeIds: Array.from({ length: agents }, () => uuidv7()),
    async stop() {
      await fleet.stop();
      await bridge.stop();
      await edge.stop();
      requireNoProcesses(directory);
      rmSync(directory, { recursive: true, force: true });
    },
  };
  const options = { perSecond, masterSecret: edge.masterSecret, controlUrl: edge.url };
  for (let made = 0; made < agents; made += MAKE_BATCH) {
    const nodes = await edge.makeNodes(walk.nodeIds.slice(made, made + MAKE_BATCH));
    await fleet.start({ ...options, agents: [...nodes], bridge: { url: bridge.url, mode: "stream" } });
  }
  await until("every agent to be in session", async () => ((await holders(fleet)) === agents ? true : null), {
    timeoutMs: RETURN_MS,
  });
  return walk;
}

/** What dies and comes back. */
export interface Loss {
  kill(): Promise<void>;
  start(): Promise<void>;
  /** How long it is away before it is started again. */
  readonly awayMs: number;
}

/**
 * Loses a part while commands run at `commands` of the nodes, and shows what an operator relies on: every agent back in
 * time and not all at once, no node down, and every command executed once and ended.
 */
export async function surviveLoss({ edge, fleet, nodeIds }: FleetWalk, commands: number, loss: Loss): Promise<void> {
  const commanded = nodeIds.slice(0, commands);
  await edge.sendCommands(commanded);
  await untilCommands(edge, commanded, "running");

  const lostAt = Date.now();
  await loss.kill();
  await delay(loss.awayMs);
  await loss.start();
  const returns = await until("every agent to be back", async () => returnsSince(await fleet.read(), lostAt), {
    timeoutMs: RETURN_MS - (Date.now() - lostAt),
  });
  const dialled = returns.map(({ dialledAt }) => dialledAt - lostAt);
  const welcomed = returns.map(({ welcomedAt }) => welcomedAt - lostAt);
  printHistogram("agents knocked at the door behind which they were let in", dialled);
  printHistogram("agents were in session", welcomed);
  expect(Math.max(...welcomed)).toBeLessThan(RETURN_MS);
  // How agents spread is seen where they knock: a front that is up before the rest of the edge holds them and lets all in at once.
  expect(Math.max(...histogram(dialled).values())).toBeLessThanOrEqual(nodeIds.length * HERD);

  await fleet.release();
  await untilCommands(edge, commanded, "completed");
  expect(await edge.states(nodeIds)).toEqual({ healthy: nodeIds.length });
  expect(await edge.events()).not.toHaveProperty("state_changed to down");
  const executions = (await fleet.read()).flatMap((agent) => Object.values(agent.executions));
  expect(executions).toEqual(commanded.map(() => 1));
}

/** How many agents hold a session. */
async function holders(fleet: Fleet): Promise<number> {
  return (await fleet.read()).filter(({ sessions }) => sessions.at(-1)?.endedAt === null).length;
}

/** The first session of each agent since then; null while one holds none. */
function returnsSince(records: readonly AgentRecord[], lostAt: number) {
  const returns = records.flatMap(({ sessions }) => {
    const first = sessions.find(({ welcomedAt }) => welcomedAt > lostAt);
    return first !== undefined && sessions.at(-1)?.endedAt === null ? [first] : [];
  });
  return returns.length === records.length ? returns : null;
}

async function untilCommands(edge: Edge, nodeIds: readonly string[], state: string): Promise<void> {
  await until(
    `every command to be ${state}`,
    async () => {
      const commands = await edge.commands(nodeIds);
      return commands.length === nodeIds.length && commands.every((command) => command.state === state) ? true : null;
    },
    { timeoutMs: RETURN_MS, everyMs: 500 },
  );
}

/** How many fall into each second. */
function histogram(times: readonly number[]): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  for (const ms of times) counts.set(Math.floor(ms / 1_000), (counts.get(Math.floor(ms / 1_000)) ?? 0) + 1);
  return counts;
}

function printHistogram(what: string, times: readonly number[]): void {
  const counts = [...histogram(times)].sort(([one], [other]) => one - other);
  const bar = (agents: number) => "#".repeat(Math.ceil((60 * agents) / times.length));
  const lines = counts.map(
    ([second, agents]) => `${String(second).padStart(4)} s ${String(agents).padStart(5)} ${bar(agents)}`,
  );
  console.log(`${times.length} ${what}, by seconds after the loss:\n${lines.join("\n")}`);
}
