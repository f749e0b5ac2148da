import { findHostProcesses, signalProcess } from "../agent-bridge/host-runner/processes.ts";
import { until } from "./ready.ts";

const GONE_MS = 15_000;

/**
 * Kills whatever still runs on the hosts of a runner that has ended: one that was killed, or that was making a host while
 * the others were powered off, leaves processes behind as a cloud leaves its customers' machines.
 * @param hostsDir absolute, as the runner was given it
 */
export async function endHostProcesses(hostsDir: string): Promise<void> {
  await until(
    "the hosts' processes to end",
    async () => {
      const left = await findHostProcesses(hostsDir, "");
      for (const { pid } of left) signalProcess(pid, "SIGKILL");
      return left.length === 0 ? true : null;
    },
    { timeoutMs: GONE_MS },
  );
}
