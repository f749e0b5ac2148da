import { readFileSync } from "node:fs";
import { z } from "zod";

/** What came in at an object, and what was written until the next thing did. */
export interface MeteredEvent {
  readonly object: string;
  readonly name: string;
  readonly at: number;
  /** Rows written by SQL. */
  rows: number;
  /** Writes of the alarm; each is a row as well. */
  alarmWrites: number;
}

/** One construction of an object: it came into memory, at first or out of hibernation. */
export interface Wake {
  readonly object: string;
  readonly at: number;
  /** What came in, in order; the first is what woke it. */
  readonly events: MeteredEvent[];
  /** Written by the construction itself. */
  readonly start: MeteredEvent;
}

const lineSchema = z.object({
  meter: z.enum(["woken", "event", "rows", "alarm_written"]),
  object: z.string(),
  wake: z.string(),
  at: z.number(),
  name: z.string().default("start"),
  rows: z.number().default(0),
});
type Line = z.output<typeof lineSchema>;

/** Reads what the metered Worker printed into its log so far. */
export function readMeter(logFile: string): readonly Wake[] {
  const wakes = new Map<string, Wake>();
  // What follows the last line end is a line that is still being written.
  for (const text of readFileSync(logFile, "utf8").split("\n").slice(0, -1)) {
    const line = text.startsWith('{"meter":') ? lineSchema.parse(JSON.parse(text)) : null;
    if (line !== null) take(wakes, line);
  }
  return [...wakes.values()];
}

function take(wakes: Map<string, Wake>, line: Line): void {
  if (line.meter === "woken") {
    wakes.set(line.wake, { object: line.object, at: line.at, events: [], start: eventOf(line) });
    return;
  }
  const wake = wakes.get(line.wake);
  if (wake === undefined) throw new Error(`The meter tells of wake ${line.wake} before it began.`);
  if (line.meter === "event") wake.events.push(eventOf(line));
  const current = wake.events.at(-1) ?? wake.start;
  current.rows += line.rows;
  if (line.meter === "alarm_written") current.alarmWrites += 1;
}

function eventOf({ object, name, at }: Line): MeteredEvent {
  return { object, name, at, rows: 0, alarmWrites: 0 };
}
