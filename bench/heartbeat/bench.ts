import { rmSync } from "node:fs";
import { join } from "node:path";
import { interruptSignal, unlessInterrupted } from "../../dev/interrupt.ts";
import { createLog } from "../../ops-agent/log.ts";
import { DirectWay } from "../../ops-agent/transport/websocket.ts";
import { REPO_DIR, startEdge } from "../edge/places.ts";
import { hostsDirectory } from "../fleet/installation.ts";
import type { BenchOptions, BenchResult } from "../main.ts";
import { measureBeats } from "./beats.ts";
import { closeAll, connectAgents } from "./connect.ts";
import { CLOCK_SPEED, type HourFigures, steadyHour } from "./hour.ts";
import { beatVerdicts, hourVerdicts, memoryVerdict } from "./limits.ts";
import type { Line } from "./lines.ts";
import { measureMemory } from "./memory.ts";
import { FULL, type Plan, QUICK } from "./plan.ts";
import { priceOf } from "./price.ts";
import { type HeartbeatFigures, report } from "./report.ts";

/** What is left of an earlier run that was killed is ended by the next, so it is always the same place. */
const DIRECTORY = join(REPO_DIR, ".orrery/bench");

export const heartbeat = {
  about: "what a beat, an idle node's memory and a steady hour of a node cost, beside a bare object and bare gRPC",
  run,
};

async function run({ quick, say }: BenchOptions): Promise<BenchResult> {
  const plan = quick ? QUICK : FULL;
  const interrupted = interruptSignal();
  const hosts = hostsDirectory();
  try {
    const options = { directory: DIRECTORY, hosts, interrupted, say };
    const memory = await measureMemory(plan.memory, options);
    const beats = await measureBeats(plan, options);
    say(`a steady hour of ${plan.hour.nodes} nodes, with a clock ${CLOCK_SPEED} times as fast`);
    const hour = await measureHour(plan, hosts, interrupted);
    const price = priceOf(hour.perNode, hour.eventMicros.touch);
    const verdicts = [
      ...hourVerdicts(hour, price),
      memoryVerdict(memory.ours, memory.bare),
      ...beatVerdicts(beats.beats),
    ];
    const figures: HeartbeatFigures = { quick, memory, ...beats, hour, price, verdicts };
    return { figures, text: report(figures) };
  } finally {
    rmSync(hosts, { recursive: true, force: true });
  }
}

async function measureHour(plan: Plan, hosts: string, interrupted: AbortSignal): Promise<HourFigures> {
  const edge = await startEdge({ directory: join(DIRECTORY, "hour"), clockSpeed: CLOCK_SPEED, database: "embedded" });
  const lines: Line[] = [];
  try {
    const way = new DirectWay(edge.url, createLog("silent", {}));
    const connect = async (nodes: number) => {
      const connected = await connectAgents(nodes, { edge, way, hosts, state: "syncing" });
      lines.push(...connected);
      return connected;
    };
    return await unlessInterrupted(interrupted, steadyHour(edge, plan.hour, connect));
  } finally {
    closeAll(lines);
    await edge.stop();
  }
}
