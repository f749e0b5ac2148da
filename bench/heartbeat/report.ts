import { table } from "../../cli/print.ts";
import type { BeatFigures } from "./beat-figures.ts";
import type { BeatMeter } from "./beats.ts";
import type { HourFigures } from "./hour.ts";
import type { Verdict } from "./limits.ts";
import type { MemoryFigures } from "./memory.ts";
import type { NodePrice } from "./price.ts";

export interface HeartbeatFigures {
  readonly quick: boolean;
  readonly memory: MemoryFigures;
  readonly beats: readonly BeatFigures[];
  readonly meters: readonly BeatMeter[];
  /** CPU milliseconds a second. */
  readonly idle: Readonly<Record<string, number>>;
  readonly hour: HourFigures;
  readonly price: NodePrice;
  readonly verdicts: readonly Verdict[];
}

/** Everything side by side, for people. */
export function report(figures: HeartbeatFigures): string {
  const parts = [
    figures.quick ? "A quick run: it shows that the bench works, the figures mean nothing.\n" : "",
    section(
      "Beats (CPU per answered beat, microseconds: median, and least to most of the rounds)",
      beatsTable(figures),
    ),
    section("What beats woke at our objects", metersTable(figures)),
    section("CPU without beats, all nodes connected (milliseconds a second)", idleTable(figures)),
    section("Memory of one more idle node, hibernated (KiB, slope over batches)", memoryTable(figures)),
    section(`A steady hour of a node (mean of ${figures.hour.nodes}, clock moved)`, hourTable(figures)),
    section("Price of an idle node, dollars a month of 30 days, beyond the account's allowances", priceTable(figures)),
    section("Limits", verdictTable(figures)),
  ];
  return parts.join("\n");
}

function section(title: string, text: string): string {
  return `${title}\n\n${text}`;
}

function beatsTable({ beats }: HeartbeatFigures): string {
  return table(
    {
      nodes: ({ nodes }: BeatFigures) => String(nodes),
      pace: ({ pace }) => pace,
      subject: ({ subject }) => subject,
      "beats/s": ({ beatsPerSecond }) => beatsPerSecond.toFixed(0),
      missing: ({ missing }) => String(missing),
      edge: (row) => cost(row, "edge"),
      "bridge or echo": (row) => cost(row, row.subject === "echo" ? "echo" : "bridge"),
      "wrangler's front": (row) => cost(row, "front"),
    },
    beats,
  );
}

function cost({ microsPerBeat }: BeatFigures, process: string): string {
  const of = microsPerBeat[process];
  return of === undefined ? "-" : `${of.median.toFixed(1)} (${of.least.toFixed(1)}-${of.most.toFixed(1)})`;
}

function metersTable({ meters }: HeartbeatFigures): string {
  return table(
    {
      nodes: ({ nodes }: BeatMeter) => `${nodes} direct, ${nodes} by the bridge`,
      beats: ({ beats }) => String(beats),
      "objects woken": ({ woken }) => String(woken),
      "events at objects": ({ events }) => String(events),
      "rows written": ({ rowsWritten }) => String(rowsWritten),
    },
    meters,
  );
}

function idleTable({ idle }: HeartbeatFigures): string {
  return table(
    { process: ([name]: readonly [string, number]) => name, "ms/s": ([, ms]) => ms.toFixed(2) },
    Object.entries(idle),
  );
}

function memoryTable({ memory }: HeartbeatFigures): string {
  const rows = [
    { name: "bare object", of: memory.bare },
    { name: "bare object, woken by an alarm as often as ours", of: memory.woken },
    { name: "ours", of: memory.ours },
  ];
  return table(
    {
      "": ({ name }: (typeof rows)[number]) => name,
      RSS: ({ of }) => of.rssKib.toFixed(1),
      PSS: ({ of }) => of.pssKib.toFixed(1),
      "RSS after each batch, MiB": ({ of }) => of.points.map(({ rssKib }) => (rssKib / 1_024).toFixed(0)).join(" "),
    },
    rows,
  );
}

function hourTable({ hour }: HeartbeatFigures): string {
  const { perNode, oneNode, eventMicros } = hour;
  const count = (name: string, of: (hour: typeof perNode) => number) => ({ name, mean: of(perNode), one: of(oneNode) });
  const names = [...new Set(["alarm", "touch", "webSocketMessage", ...Object.keys(perNode.events)])];
  const counts = [
    count("beats, answered by the runtime", ({ beats }) => beats),
    count("objects woken", ({ woken }) => woken),
    ...names.map((name) => count(`came in: ${name}`, ({ events }) => events[name] ?? 0)),
    count("metrics reports (agents make none yet)", () => 0),
    count("rows written by SQL", ({ rowsWritten }) => rowsWritten),
    count("rows written by setting the alarm", ({ alarmsSet }) => alarmsSet),
    count("rows read", ({ rowsRead }) => rowsRead),
  ];
  const lines = table(
    {
      "": ({ name }: (typeof counts)[number]) => name,
      "a node-hour": ({ mean }) => mean.toFixed(2),
      [`one node in ${hour.hours.toFixed(2)} h`]: ({ one }) => one.toFixed(0),
    },
    counts,
  );
  const rest = [
    `CPU of a node-hour, whole window less the empty deployment's: ${hour.cpuMs.toFixed(1)} ms`,
    `one alarm that wakes an object: ${(eventMicros.alarm / 1_000).toFixed(2)} ms; one touch of the sweep: ${(eventMicros.touch / 1_000).toFixed(2)} ms`,
    `the empty deployment (runtime, cron trigger each minute): ${hour.cpuMsWithoutNodes.toFixed(0)} ms an hour, whatever the nodes`,
    `beats that nobody answered: ${hour.missing}`,
  ];
  return `${lines}\n${rest.join("\n")}\n`;
}

function priceTable({ price }: HeartbeatFigures): string {
  const rows = Object.entries(price);
  return table({ "": ([name]: readonly [string, number]) => name, $: ([, dollars]) => dollars.toFixed(6) }, rows);
}

function verdictTable({ verdicts }: HeartbeatFigures): string {
  return table(
    {
      "": ({ isKept }: Verdict) => (isKept ? "pass" : "MISS"),
      what: ({ what }) => what,
      measured: ({ value, unit }) => amount(value, unit),
      limit: ({ limit, unit }) => amount(limit, unit),
    },
    verdicts,
  );
}

function amount(value: number, unit: string): string {
  if (unit === "$") return `$${value.toFixed(4)}`;
  return unit === "x" ? `${value.toFixed(2)}x` : `${value.toFixed(1)} ${unit}`;
}
