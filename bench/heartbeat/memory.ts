import { setTimeout as delay } from "node:timers/promises";
import { slope } from "../numbers.ts";
import { memoryOf } from "../processes.ts";

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

/**
 * Connects batch after batch, lets each hibernate, and weighs the process that holds the objects. An allocator keeps what
 * it once had, so memory does not shrink on hibernation: what counts is how it grows. The first batch is not a point on
 * the line, for it brings the code into memory.
 */
export async function weigh(
  plan: MemoryPlan,
  pid: number,
  connect: (nodes: number) => Promise<void>,
): Promise<MemoryPerNode> {
  const points: { nodes: number; rssKib: number; pssKib: number }[] = [];
  for (let batch = 1; batch <= plan.batches; batch += 1) {
    await connect(plan.nodesPerBatch);
    await delay(plan.settleMs);
    points.push({ nodes: batch * plan.nodesPerBatch, ...memoryOf(pid) });
  }
  const line = (of: "rssKib" | "pssKib") => slope(points.map((point) => ({ x: point.nodes, y: point[of] })));
  return { rssKib: line("rssKib"), pssKib: line("pssKib"), points };
}
