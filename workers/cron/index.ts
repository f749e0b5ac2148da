import { errorText, log } from "../../durable-objects/shared/log.ts";
import { type SweepCounts, type SweepDeps, sweepDeps } from "./deps.ts";
import { sweepHosts } from "./hosts.ts";
import { sweepNodeKeys } from "./node-keys.ts";
import { sweepNodeTimers } from "./node-timers.ts";
import { sweepSagas } from "./sagas.ts";

interface Sweep {
  readonly everyMinutes: number;
  run(deps: SweepDeps): Promise<SweepCounts>;
}

/** What is due on the one cron trigger, which rings every minute. Sweeps find what was lost; nothing waits for them. */
const SWEEPS: Readonly<Record<string, Sweep>> = {
  sagas: { everyMinutes: 1, run: sweepSagas },
  "node-timers": { everyMinutes: 1, run: sweepNodeTimers },
  hosts: { everyMinutes: 1, run: sweepHosts },
  "node-keys": { everyMinutes: 5, run: sweepNodeKeys },
};

/** The Worker's `scheduled` handler. One sweep that fails holds up no other, and its next turn comes by itself. */
export async function handleScheduled(scheduledTime: number, env: Env): Promise<void> {
  const deps = sweepDeps(env);
  const minute = Math.floor(scheduledTime / 60_000);
  const due = Object.entries(SWEEPS).filter(([, { everyMinutes }]) => minute % everyMinutes === 0);
  await Promise.all(due.map(([name, sweep]) => runSweep(name, sweep, deps)));
}

async function runSweep(name: string, sweep: Sweep, deps: SweepDeps): Promise<void> {
  const startedAt = deps.now();
  try {
    const counts = await sweep.run(deps);
    log("info", "sweep done", { sweep: name, ms: deps.now() - startedAt, ...counts });
  } catch (thrown) {
    log("error", "sweep failed", { sweep: name, ms: deps.now() - startedAt, error: errorText(thrown) });
  }
}
