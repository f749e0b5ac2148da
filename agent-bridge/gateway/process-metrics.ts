import { readdirSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { Counter, Gauge, type Registry } from "prom-client";

/**
 * What an operator asks of the process itself, read when somebody looks. prom-client's own set wakes the process a
 * hundred times a second to watch its event loop, which costs more than a thousand idle sessions do.
 */
export function collectProcessMetrics(registry: Registry): void {
  const registers = [registry];
  new Counter({
    name: "process_cpu_seconds_total",
    help: "CPU time used, user and system.",
    registers,
    collect() {
      const { user, system } = process.cpuUsage();
      this.reset();
      this.inc((user + system) / 1_000_000);
    },
  });
  gauge("process_resident_memory_bytes", "Memory in use.", () => process.memoryUsage.rss());
  gauge("nodejs_heap_size_used_bytes", "JavaScript heap in use.", () => process.memoryUsage().heapUsed);
  gauge("process_open_fds", "Open files and sockets.", () => readdirSync("/proc/self/fd").length - 1);
  gauge("process_start_time_seconds", "When the process began, since the epoch.", () => performance.timeOrigin / 1_000);
  gauge("nodejs_eventloop_utilization", "Share of the time since the last look that the event loop was busy.", busy());

  function gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  }
}

function busy(): () => number {
  let last = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    return utilization;
  };
}
