import { type BeatFigures, costRatio } from "./beat-figures.ts";
import type { HourFigures } from "./hour.ts";
import type { MemoryPerNode } from "./memory.ts";
import type { NodePrice } from "./price.ts";

/** One limit that a node's heartbeat has to keep. */
export interface Verdict {
  readonly what: string;
  readonly limit: number;
  readonly value: number;
  readonly unit: string;
  readonly isKept: boolean;
}

const LIMITS = { hourCpuMs: 150, monthDollars: 0.032, edgeRatio: 1.3, bridgeRatio: 2, memoryRatio: 1.5 } as const;

export function hourVerdicts(hour: HourFigures, price: NodePrice): readonly Verdict[] {
  return [
    verdict("CPU of an idle node-hour at the edge", hour.cpuMs, LIMITS.hourCpuMs, "ms"),
    verdict("price of a node-month, beats not counted", price.total, LIMITS.monthDollars, "$"),
    verdict("price of a node-month, beats counted", price.totalWithBeats, LIMITS.monthDollars, "$"),
  ];
}

export function memoryVerdict(ours: MemoryPerNode, bare: MemoryPerNode): Verdict {
  return verdict("memory of an idle node, to the bare object's", ours.rssKib / bare.rssKib, LIMITS.memoryRatio, "x");
}

/** Each number of nodes and each pace for itself; the bare object and the echo server are of the same rounds. */
export function beatVerdicts(figures: readonly BeatFigures[]): readonly Verdict[] {
  return figures.flatMap((ours) => {
    const at = `${ours.nodes} nodes, ${ours.pace}`;
    const peer = (subject: string) => {
      return figures.find(
        ({ nodes, pace, subject: name }) => nodes === ours.nodes && pace === ours.pace && name === subject,
      );
    };
    const bare = peer("bare");
    const echo = peer("echo");
    if (bare === undefined || echo === undefined) return [];
    const edge = () => costRatio(ours, "edge", bare, "edge");
    if (ours.subject === "direct")
      return [verdict(`edge per beat, to the bare ping (${at})`, edge(), LIMITS.edgeRatio, "x")];
    if (ours.subject !== "bridge") return [];
    return [
      verdict(`edge per beat through the bridge, to the bare ping (${at})`, edge(), LIMITS.edgeRatio, "x"),
      verdict(
        `bridge per beat, to the echo server (${at})`,
        costRatio(ours, "bridge", echo, "echo"),
        LIMITS.bridgeRatio,
        "x",
      ),
    ];
  });
}

function verdict(what: string, value: number, limit: number, unit: string): Verdict {
  return { what, limit, value, unit, isKept: value <= limit };
}
