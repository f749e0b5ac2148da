import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import { unlessInterrupted } from "../../dev/interrupt.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { createLog } from "../../ops-agent/log.ts";
import { DirectWay } from "../../ops-agent/transport/websocket.ts";
import { type BenchWorker, startBare, startEdge } from "../edge/places.ts";
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
  /** A batch connects evenly over this long: objects that are in memory all at once are not idle ones. */
  readonly spreadMs: number;
  /** Longer than an idle object stays in memory, and than it takes to its next alarm. */
  readonly settleMs: number;
}

export interface MemoryFigures {
  readonly bare: MemoryPerNode;
  /** A bare object that an alarm wakes as often as ours. */
  readonly woken: MemoryPerNode;
  readonly ours: MemoryPerNode;
}

/** Idle nodes of the bare object and of ours, which beat as nodes do and so stay healthy. */
export async function measureMemory(plan: MemoryPlan, options: MeasureOptions): Promise<MemoryFigures> {
  const { directory, hosts, interrupted, say } = options;
  say("start the bare object, twice, and the edge");
  const bare = await startBare(join(directory, "bare"));
  const woken = await startBare(join(directory, "woken"));
  const edge = await startEdge({ directory: join(directory, "edge"), clockSpeed: 1, database: "none" });
  const lines: Line[] = [];
  const add = (more: readonly Line[]) => {
    lines.push(...more);
    return more;
  };
  try {
    say(`memory: ${plan.batches} batches of ${plan.nodesPerBatch} nodes`);
    const way = new DirectWay(edge.url, createLog("silent", {}));
    const work = Promise.all([
      weigh(plan, bare, async (nodes) => add(await bareLines(nodes, bare, ""))),
      weigh(plan, woken, async (nodes) => add(await bareLines(nodes, woken, "/woken"))),
      weigh(plan, edge, async (nodes) => add(await connectAgents(nodes, { edge, way, hosts, state: "syncing" }))),
    ]);
    const [ofBare, ofWoken, ofOurs] = await unlessInterrupted(interrupted, work);
    return { bare: ofBare, woken: ofWoken, ours: ofOurs };
  } finally {
    closeAll(lines);
    for (const worker of [edge, woken, bare]) await worker.stop();
  }
}

/** Connections that are made at once. */
const GROUP = 10;

function bareLines(nodes: number, { url }: BenchWorker, path: string): Promise<readonly Line[]> {
  return connectAll(nodes, () => socketLine(`${url.replace("http", "ws")}${path}/${uuidv7()}`));
}

/**
 * Connects batch after batch, lets each hibernate, and weighs the process that holds the objects. An allocator keeps what
 * it once had, so memory does not shrink on hibernation: what counts is how it grows.
 */
async function weigh(
  plan: MemoryPlan,
  worker: BenchWorker,
  connect: (nodes: number) => Promise<readonly Line[]>,
): Promise<MemoryPerNode> {
  const points: { nodes: number; rssKib: number; pssKib: number }[] = [];
  const lines: Line[] = [];
  const stopBeating = keepBeating(lines, DEFAULTS.heartbeat.beatMs);
  for (let batch = 1; batch <= plan.batches; batch += 1) {
    for (let connected = 0; connected < plan.nodesPerBatch; connected += GROUP) {
      lines.push(...(await connect(GROUP)));
      await delay((plan.spreadMs * GROUP) / plan.nodesPerBatch);
    }
    await delay(plan.settleMs);
    points.push({ nodes: lines.length, ...memoryOf(worker.runtimes.objects) });
  }
  stopBeating();
  const line = (of: "rssKib" | "pssKib") => slope(points.map((point) => ({ x: point.nodes, y: point[of] })));
  return { rssKib: line("rssKib"), pssKib: line("pssKib"), points };
}
