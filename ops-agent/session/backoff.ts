import { DEFAULTS } from "../../domain/defaults.ts";

const BASE_MS = 500;

/**
 * How long to wait before the next connection attempt: full jitter over a cap that doubles, so that a fleet
 * that lost its control plane at one moment does not return at one moment.
 * @param failures attempts since the last good session
 * @param random in [0, 1)
 */
export function reconnectDelayMs(failures: number, maxMs: number, random: number): number {
  const cap = Math.min(maxMs, BASE_MS * 2 ** Math.min(failures, 20));
  return Math.floor(random * cap);
}

/**
 * How long to wait after a session was lost that had been established. So were, perhaps, those of the whole fleet, at
 * the same moment: the first attempts are spread evenly.
 */
export function spreadDelayMs(maxMs: number, random: number): number {
  return Math.floor(random * Math.min(maxMs, DEFAULTS.agent.reconnectSpreadMs));
}
