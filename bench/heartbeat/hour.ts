import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { runCron, startCronDriver } from "../../dev/cron-driver.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import type { Edge, Meter } from "../edge/places.ts";
import { median } from "../numbers.ts";
import type { Line } from "./lines.ts";
import { keepBeating, measure, measureIdle } from "./load.ts";

/** Seconds of the edge's clock in a real one: fast, and still slow enough that objects hibernate between two alarms. */
export const CLOCK_SPEED = 8;

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** The cron trigger rings each minute of the edge's clock. */
const CRON_MS = MINUTE_MS / CLOCK_SPEED;
/** The fleet begins in groups, a while apart, so that its alarms do not ring all at once ever after. */
const GROUPS = 10;
const GROUP_MS = 1_200;
const SETTLE_ROUNDS = 20;
/** Without beats, and shorter than the silence that makes a node down. */
const SILENT_MS = 10_000;

export interface HourPlan {
  readonly nodes: number;
  /** Of the edge's clock; less than 1 only to see that the bench works. */
  readonly hours: number;
  readonly rounds: number;
  /** Beats for so long, once or more, come before anything is measured: at least two alarms of every node. */
  readonly settleMs: number;
}

/** What one node does in a steady hour, and what that costs the runtime that holds the objects. */
export interface HourFigures {
  readonly nodes: number;
  readonly hours: number;
  /** Per node and hour, of the whole fleet. */
  readonly perNode: NodeHour;
  /** What one single node did in the time measured. */
  readonly oneNode: NodeHour;
  readonly missing: number;
  /** CPU milliseconds a node and hour: the whole window less what the runtime uses without any node. */
  readonly cpuMs: number;
  /** CPU milliseconds an hour that the deployment uses without any node: the runtime itself and the cron trigger's sweeps. */
  readonly cpuMsWithoutNodes: number;
  /** CPU microseconds of one event, measured apart. */
  readonly eventMicros: { readonly alarm: number; readonly touch: number };
}

export interface NodeHour {
  readonly beats: number;
  readonly woken: number;
  readonly rowsRead: number;
  readonly rowsWritten: number;
  readonly alarmsSet: number;
  readonly databaseBytes: number;
  /** By name: alarms, calls, frames. */
  readonly events: Readonly<Record<string, number>>;
}

/**
 * Nodes in peace for an hour of the edge's clock: real alarms rung by the runtime, the product's own sweep on its cron
 * trigger, beats every ten seconds of that clock.
 * @param connect makes nodes and answers their agents' lines
 */
export async function steadyHour(
  edge: Edge,
  plan: HourPlan,
  connect: (nodes: number) => Promise<readonly Line[]>,
): Promise<HourFigures> {
  const watched = { edge: edge.runtimes.objects };
  const empty = await withCron(edge, () => measureIdle(plan.settleMs, watched));
  const microsPerSecond = (empty.cpu.edge ?? Number.NaN) / empty.seconds;

  const lines = await connectInGroups(plan.nodes, connect);
  const pace = (plan.nodes * CLOCK_SPEED * 1_000) / DEFAULTS.heartbeat.beatMs;
  const [hour, meter] = await withCron(edge, async () => {
    await untilSteady(edge, plan, () => measure(lines, pace, plan.settleMs, watched));
    await edge.resetMeter();
    const window = await measure(lines, pace, (plan.hours * HOUR_MS) / CLOCK_SPEED, watched);
    return [window, await edge.readMeter()] as const;
  });
  if (hour.missing > plan.nodes)
    throw new Error(`${hour.missing} beats of the hour were not answered: it was no steady one.`);
  const eventMicros = await measureEvents(edge, plan, lines, pace);
  const nodeHours = plan.nodes * ((hour.seconds * CLOCK_SPEED) / 3_600);
  const hours = nodeHours / plan.nodes;
  return {
    nodes: plan.nodes,
    hours,
    perNode: sumOf(Object.values(meter), hour.answered, nodeHours),
    oneNode: sumOf(Object.values(meter).slice(0, 1), hour.answered / plan.nodes, 1),
    missing: hour.missing,
    cpuMs: ((hour.cpu.edge ?? Number.NaN) - microsPerSecond * hour.seconds) / 1_000 / nodeHours,
    cpuMsWithoutNodes: (microsPerSecond * 3_600) / CLOCK_SPEED / 1_000,
    eventMicros,
  };
}

/** Those that are there already beat meanwhile: two minutes of the edge's clock are short. */
async function connectInGroups(
  nodes: number,
  connect: (nodes: number) => Promise<readonly Line[]>,
): Promise<readonly Line[]> {
  const lines: Line[] = [];
  const stopBeating = keepBeating(lines, DEFAULTS.heartbeat.beatMs / CLOCK_SPEED);
  for (let group = 0; group < GROUPS; group += 1) {
    lines.push(...(await connect(nodes / GROUPS)));
    await delay(GROUP_MS);
  }
  stopBeating();
  return lines;
}

/** Until nothing of the nodes' beginning is left: nothing but alarms and touches came in for a while. */
async function untilSteady(edge: Edge, { nodes }: HourPlan, beat: () => Promise<unknown>): Promise<void> {
  for (let round = 0; round < SETTLE_ROUNDS; round += 1) {
    await edge.resetMeter();
    await beat();
    const { alarm = 0, touch = 0, ...others } = sumOf(Object.values(await edge.readMeter()), 0, 1).events;
    if (Object.values(others).length === 0 && alarm + touch > 0) return;
  }
  throw new Error(`${nodes} nodes did not come to rest.`);
}

/** With the cron trigger ringing meanwhile. @throws what the trigger failed with */
async function withCron<T>(edge: Edge, work: () => Promise<T>): Promise<T> {
  const { promise: failed, reject } = Promise.withResolvers<never>();
  const cron = startCronDriver(() => edge.url, CRON_MS, reject);
  try {
    return await Promise.race([work(), failed]);
  } finally {
    cron.stop();
  }
}

/**
 * What one alarm and one touch of the sweep cost: windows in which nothing else happens. The objects hibernate all the
 * while, so each is woken.
 */
async function measureEvents(edge: Edge, { rounds, settleMs }: HourPlan, lines: readonly Line[], pace: number) {
  const watched = { edge: edge.runtimes.objects };
  const alarm: number[] = [];
  const touch: number[] = [];
  const silence = async (work: () => Promise<unknown>) => {
    await measure(lines, pace, settleMs, watched);
    await edge.resetMeter();
    const [window] = await Promise.all([measureIdle(SILENT_MS, watched), work()]);
    const { alarm: alarms = 0, touch: touches = 0 } = sumOf(Object.values(await edge.readMeter()), 0, 1).events;
    return { micros: window.cpu.edge ?? Number.NaN, alarms, touches };
  };
  for (let round = 0; round < rounds; round += 1) {
    const alarms = await silence(async () => undefined);
    alarm.push(alarms.micros / alarms.alarms);
    const touched = await silence(async () => {
      await ageTouches(edge.databaseUrl);
      // The window has begun by then.
      await delay(1_500);
      await runCron(edge.url);
    });
    touch.push((touched.micros - touched.alarms * median(alarm)) / touched.touches);
  }
  return { alarm: median(alarm), touch: median(touch) };
}

/** Makes every node look as if nobody had heard of it for hours, so that the next sweep touches them all. */
async function ageTouches(databaseUrl: string | null): Promise<void> {
  if (databaseUrl === null) throw new Error("Nodes without rows are not touched.");
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query("UPDATE nodes SET touched_at = touched_at - interval '2 hours'");
  } finally {
    await client.end();
  }
}

function sumOf(meters: readonly Meter[string][], beats: number, by: number): NodeHour {
  const total = (of: (meter: Meter[string]) => number) => meters.reduce((sum, meter) => sum + of(meter), 0) / by;
  const names = new Set(meters.flatMap(({ events }) => Object.keys(events)));
  return {
    beats: beats / by,
    woken: total(({ woken }) => woken),
    rowsRead: total(({ rowsRead }) => rowsRead),
    rowsWritten: total(({ rowsWritten }) => rowsWritten),
    alarmsSet: total(({ alarmsSet }) => alarmsSet),
    databaseBytes: Math.max(0, ...meters.map(({ databaseBytes }) => databaseBytes)),
    events: Object.fromEntries([...names].map((name) => [name, total(({ events }) => events[name] ?? 0)])),
  };
}
