import { type Logger, pino } from "pino";

export type { Logger };

/**
 * The agent's log: JSON lines on standard output. Nothing that is secret is ever passed to it:
 * the node token is read from its file at each connection and goes nowhere but the header.
 */
export function createLog(level: string, bindings: Readonly<Record<string, unknown>>): Logger {
  return pino({ level, base: { component: "ops-agent", ...bindings }, timestamp: pino.stdTimeFunctions.isoTime });
}
