import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import { unlessInterrupted } from "../../dev/interrupt.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { createLog } from "../../ops-agent/log.ts";
import { DirectWay } from "../../ops-agent/transport/websocket.ts";
import { startBare, startEdge } from "../edge/places.ts";
import { slope } from "../numbers.ts";
import { memoryOf } from "../processes.ts";
import type { MeasureOptions } from "./beats.ts";
import { closeAll, connectAgents, connectAll } from "./connect.ts";
import { type Line, socketLine } from "./lines.ts";
import { keepBeating } from "./load.ts";

/** How much memory one more idle node takes, by the slope over batches; never the difference before and after. */
export interface MemoryPerNode {
  readonly rssKib: number;
  readonly pssKib: number;
  readonly points: readonly { readonly nodes: number; readonly rssKib: number; readonly pssKib: number }[];
}

export interface MemoryPlan {
  readonly batches: number;
  readonly nodesPerBatch: number;
  /** Longer than an idle object stays in memory. */
  readonly settleMs: number;
}

/** Idle nodes of the bare object and of ours, which beat as nodes do and so stay healthy. */
export async function measureMemory(plan: MemoryPlan, { directory, hosts, interrupted, say }: MeasureOptions) {
  say("start the bare object and the edge");
  const bare = await startBare(join(directory, "bare"));
  const edge = await startEdge({ directory: join(directory, "edge"), clockSpeed: 1, database: "none" });
  const lines: { bare: Line[]; ours: Line[] } = { bare: [], ours: [] };
  try {
    say(`memory: ${plan.batches} batches of ${plan.nodesPerBatch} nodes, bare and ours`);
    const way = new DirectWay(edge.url, createLog("silent", {}));
    const address = bare.url.replace("http", "ws");
    const bareMore = (nodes: number) => connectAll(nodes, () => socketLine(`${address}/${uuidv7()}`));
    const oursMore = (nodes: number) => connectAgents(nodes, { edge, way, hosts, state: "syncing" });
    const work = Promise.all([
      weigh(plan, bare.runtimes.objects, lines.bare, bareMore),
      weigh(plan, edge.runtimes.objects, lines.ours, oursMore),
    ]);
    const [ofBare, ofOurs] = await unlessInterrupted(interrupted, work);
    return { bare: ofBare, ours: ofOurs };
  } finally {
    closeAll([...lines.bare, ...lines.ours]);
    await edge.stop();
    await bare.stop();
  }
}

/**
 * Connects batch after batch, lets each hibernate, and weighs the process that holds the objects. An allocator keeps what
 * it once had, so memory does not shrink on hibernation: what counts is how it grows.
 */
async function weigh(
  plan: MemoryPlan,
  pid: number,
  lines: Line[],
  connect: (nodes: number) => Promise<readonly Line[]>,
): Promise<MemoryPerNode> {
  const points: { nodes: number; rssKib: number; pssKib: number }[] = [];
  const stopBeating = keepBeating(lines, DEFAULTS.heartbeat.beatMs);
  for (let batch = 1; batch <= plan.batches; batch += 1) {
    lines.push(...(await connect(plan.nodesPerBatch)));
    await delay(plan.settleMs);
    points.push({ nodes: lines.length, ...memoryOf(pid) });
  }
  stopBeating();
  const line = (of: "rssKib" | "pssKib") => slope(points.map((point) => ({ x: point.nodes, y: point[of] })));
  return { rssKib: line("rssKib"), pssKib: line("pssKib"), points };
}
