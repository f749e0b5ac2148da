import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AgentRecord } from "../../bench/fleet/protocol.ts";
import { cpuMicros, memoryOf } from "../../bench/processes.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { type FleetWalk, startFleetWalk } from "../e2e/fleet-walk.ts";

const AGENTS = 2_000;
const WINDOW_MS = 600_000;
const SET_UP_MS = 900_000;

describe(`${AGENTS} agents on one bridge for ten real minutes`, () => {
  let walk: FleetWalk;
  beforeAll(async () => {
    walk = await startFleetWalk(AGENTS, 20);
  }, SET_UP_MS);
  afterAll(async () => {
    await walk?.stop();
  });

  it("keep their sessions, and every beat of theirs is sent and answered in time", async () => {
    const { edge, fleet, bridge, nodeIds } = walk;
    const processes = { bridge: bridge.process.pid, edge: edge.runtimes.objects, fleet: fleet.pid };
    const cpuBefore = cpuOf(processes);
    const records = await fleet.read();
    await delay(WINDOW_MS);
    const later = await fleet.read();
    const cpuAfter = cpuOf(processes);

    const beats = sum(later, ({ beatsAnswered }) => beatsAnswered) - sum(records, ({ beatsAnswered }) => beatsAnswered);
    for (const [name, pid] of Object.entries(processes)) {
      const cpu = (cpuAfter.get(name) ?? Number.NaN) - (cpuBefore.get(name) ?? Number.NaN);
      const share = ((100 * cpu) / 1_000 / WINDOW_MS).toFixed(1);
      const rss = (memoryOf(pid).rssKib / 1_024).toFixed(0);
      console.log(`${name}: ${share} % of a core, ${(cpu / beats).toFixed(0)} us a beat, ${rss} MiB`);
    }
    const expected = (AGENTS * WINDOW_MS) / DEFAULTS.heartbeat.beatMs;
    expect(Math.abs(beats - expected)).toBeLessThanOrEqual(AGENTS);
    expect(later.filter((agent) => agent.sessions.length !== 1 || agent.beatsLate > 0)).toEqual([]);
    expect(later.every(({ sessions }) => sessions[0]?.way === "bridge" && sessions[0].endedAt === null)).toBe(true);
    expect(await edge.states(nodeIds)).toEqual({ healthy: AGENTS });
    expect(await edge.events()).not.toHaveProperty("state_changed to down");
  });
});

/** CPU microseconds so far. */
function cpuOf(processes: Readonly<Record<string, number>>): ReadonlyMap<string, number> {
  return new Map(Object.entries(processes).map(([name, pid]) => [name, cpuMicros(pid)]));
}

function sum(records: readonly AgentRecord[], of: (record: AgentRecord) => number): number {
  return records.reduce((total, record) => total + of(record), 0);
}
