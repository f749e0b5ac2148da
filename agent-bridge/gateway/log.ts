import { type Logger, pino } from "pino";

export type { Logger };

/** One JSON line an event. Nothing that an agent or the edge sent is in it but ids and codes. */
export function createLog(level: string): Logger {
  return pino({ level, base: { component: "bridge" } });
}
