import { Gauge, Registry } from "prom-client";
import type { FleetMetrics } from "../../db/fleet-metrics.ts";
import { httpRegistry } from "./middleware/metrics.ts";

/** Prometheus text: the fleet as Postgres has it at this moment, and what this isolate has counted. */
export async function metricsText(fleet: FleetMetrics): Promise<string> {
  const registry = new Registry();
  const registers = [registry];
  const nodes = new Gauge({ name: "orrery_nodes", help: "Nodes by state.", labelNames: ["state"], registers });
  for (const { state, count } of fleet.nodesByState) nodes.set({ state }, count);
  const sagas = new Gauge({
    name: "orrery_sagas",
    help: "Sagas by workflow and status.",
    labelNames: ["workflow", "status"],
    registers,
  });
  for (const { workflow, status, count } of fleet.sagasByStatus) sagas.set({ workflow, status }, count);
  new Gauge({
    name: "orrery_outbox_lag_seconds",
    help: "The longest wait between a node's event and its row, of the last five minutes.",
    registers,
  }).set(fleet.outboxLagSeconds);
  new Gauge({
    name: "orrery_overdue_timers",
    help: "Nodes whose object should have acted by now and has not.",
    registers,
  }).set(fleet.overdueTimers);
  return `${await registry.metrics()}\n${await httpRegistry.metrics()}`;
}
