import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { collectProcessMetrics } from "./process-metrics.ts";

export type SessionMode = "stream" | "unary";

/** What the bridge counts; `buffered` is asked when somebody looks. */
export function createMetrics(bufferedBytes: () => number) {
  const registry = new Registry();
  const registers = [registry];
  collectProcessMetrics(registry);
  new Gauge({
    name: "orrery_bridge_buffered_bytes",
    help: "Bytes held for a side that is slower than the other.",
    registers,
    collect() {
      this.set(bufferedBytes());
    },
  });
  return {
    registry,
    sessions: new Gauge({
      name: "orrery_bridge_sessions",
      help: "Sessions at this moment.",
      labelNames: ["mode"] as const,
      registers,
    }),
    opens: new Counter({
      name: "orrery_bridge_opens_total",
      help: "Sessions that agents have begun here.",
      labelNames: ["mode"] as const,
      registers,
    }),
    connections: new Gauge({
      name: "orrery_bridge_connections",
      help: "Connections of agents at this moment, those without a session included.",
      registers,
    }),
    refusals: new Counter({
      name: "orrery_bridge_refusals_total",
      help: "Calls that ended with an error, by its code.",
      labelNames: ["code"] as const,
      registers,
    }),
    frames: countFrames(registry),
    edgeConnect: new Histogram({
      name: "orrery_bridge_edge_connect_seconds",
      help: "Time until the edge took a session's connection.",
      buckets: [0.005, 0.02, 0.1, 0.5, 2, 10],
      registers,
    }),
  };
}

/** Plain numbers until somebody looks: finding a labelled counter would cost each beat more than its other bookkeeping. */
function countFrames(registry: Registry) {
  const frames = { up: { ping: 0, frame: 0 }, down: { pong: 0, frame: 0 } };
  new Counter({
    name: "orrery_bridge_frames_total",
    help: "Frames passed on: up to the edge, down to the agent.",
    labelNames: ["direction", "kind"] as const,
    registers: [registry],
    collect() {
      this.reset();
      for (const [direction, kinds] of Object.entries(frames)) {
        for (const [kind, count] of Object.entries(kinds)) this.inc({ direction, kind }, count);
      }
    },
  });
  return frames;
}

export type BridgeMetrics = ReturnType<typeof createMetrics>;
