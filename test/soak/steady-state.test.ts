import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "../../dev/ready.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { runOrrery } from "../cli/support.ts";
import { requestNode, startWalk, type Walk } from "../e2e/walk.ts";
import { type MeteredEvent, readMeter, type Wake } from "./meter.ts";

const NODES = 50;
/** Provisionings at a time: each starts two programs and copies an artifact, on a machine that may be small. */
const LANES = 4;
const WINDOW_MS = 600_000;
const PROVISION_MS = 240_000;
/** Longer than the first alarms take that provisioning left behind. */
const SETTLE_MS = 240_000;
const SET_UP_MS = 1_800_000;
/** The silence limit less the age that the last beat may have when the alarm looks at it. */
const ALARM_GAP_MS = 110_000;
/** How much older that beat may be because a timer of the agent's was late. */
const BEAT_SLACK_MS = 1_000;

interface Measured {
  readonly wakes: readonly Wake[];
  readonly events: readonly MeteredEvent[];
  readonly frames: Readonly<Record<string, number>>;
  readonly sweeps: number;
}

describe(`${NODES} healthy nodes of which nothing is asked for ten real minutes`, () => {
  let walk: Walk;
  let nodeIds: readonly string[];
  let from: number;
  let measured: Measured;

  beforeAll(async () => {
    walk = await startWalk({ entry: "test/workerd/metered-worker.ts", cronEveryMs: 60_000 });
    nodeIds = await provisionFleet(walk);
    await untilSteady(walk);
    from = Date.now();
    measured = await measure(walk, from);
    print(measured);
  }, SET_UP_MS);
  afterAll(async () => {
    await walk?.stop();
  });

  it("stay healthy, and have nothing to tell", async () => {
    for (const nodeId of nodeIds) {
      expect((await walk.stack.api.node(nodeId)).state).toBe("healthy");
      const events = await walk.stack.api.events(nodeId);
      expect(events.filter((event) => Date.parse(event.occurred_at) >= from)).toEqual([]);
    }
  });

  it("beat every ten seconds, and every beat is answered", () => {
    const expected = (NODES * WINDOW_MS) / DEFAULTS.heartbeat.beatMs;
    const { "up ping": pings = 0, "down pong": pongs = 0, ...others } = measured.frames;
    expect(Math.abs(pings - expected)).toBeLessThanOrEqual(NODES * 2);
    expect(Math.abs(pings - pongs)).toBeLessThanOrEqual(NODES);
    expect(others).toEqual({});
  });

  it("are woken by their alarm and by nothing else, and by no beat", () => {
    expect(measured.wakes.filter((wake) => !isAlarmOrTouch(wake))).toEqual([]);
    expect(measured.events.filter(({ name }) => name !== "alarm" && name !== "touch")).toEqual([]);
    expect(new Set(measured.wakes.map(({ object }) => object)).size).toBe(NODES);
  });

  it("write one row an alarm, the next alarm, and no other", () => {
    const alarms = alarmsOf(measured);
    expect(alarms.map(({ rows, alarmWrites }) => ({ rows, alarmWrites }))).toEqual(
      alarms.map(() => ({ rows: 0, alarmWrites: 1 })),
    );
    const others = measured.events.filter(({ name }) => name !== "alarm");
    for (const { rows, alarmWrites } of [...others, ...measured.wakes.map(({ start }) => start)]) {
      expect(rows + alarmWrites).toBe(0);
    }
  });

  it("have an alarm at most every 110 s", () => {
    const most = Math.ceil(WINDOW_MS / ALARM_GAP_MS);
    const counts = alarmsByObject(measured).map((times) => times.length);
    expect(Math.max(...counts)).toBeLessThanOrEqual(most);
    expect(Math.min(...counts)).toBeGreaterThanOrEqual(Math.floor(WINDOW_MS / 120_000) - 1);
    expect(Math.min(...gaps(measured))).toBeGreaterThanOrEqual(ALARM_GAP_MS - BEAT_SLACK_MS);
  });

  it("are seen by the same meter when the sweep's touch or a command wakes them", async () => {
    const { stack } = walk;
    const touchedFrom = Date.now();
    const env = { ORRERY_URL: stack.url, ORRERY_API_KEY: stack.operatorKey };
    expect(await runOrrery(["repair", "projections"], env)).toMatchObject({ code: 0 });
    const touches = await until(
      "the touches in the log",
      async () => {
        const found = eventsSince(readMeter(logFile(walk)), touchedFrom).filter(({ name }) => name === "touch");
        return found.length >= NODES ? found : null;
      },
      { timeoutMs: 10_000 },
    );
    expect(touches.every(({ rows, alarmWrites }) => rows + alarmWrites === 0)).toBe(true);

    const [nodeId = ""] = nodeIds;
    const commandFrom = Date.now();
    const commandId = await stack.api.sendCommand(nodeId, "RESTART");
    await until(
      "the command to end and to be seen",
      async () => {
        if ((await stack.api.command(nodeId, commandId)).state !== "completed") return null;
        const frames = eventsSince(readMeter(logFile(walk)), commandFrom).filter(({ name }) => name === "message");
        return frames.some(({ rows }) => rows > 0) ? frames : null;
      },
      { timeoutMs: 60_000, everyMs: 500 },
    );
  });
});

/** @returns the nodes' ids, all of them healthy */
async function provisionFleet(walk: Walk): Promise<readonly string[]> {
  const nodeIds: string[] = [];
  let asked = 0;
  const lane = async () => {
    while (asked < NODES) {
      asked += 1;
      nodeIds.push(await provision(walk));
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return nodeIds;
}

async function provision({ stack }: Walk): Promise<string> {
  const nodeId = await requestNode(stack);
  await until(
    `node ${nodeId} to be healthy`,
    async () => {
      const { state } = await stack.api.node(nodeId);
      if (state === "failed") throw new Error(`Node ${nodeId} failed to provision.`);
      return state === "healthy" ? state : null;
    },
    { timeoutMs: PROVISION_MS, everyMs: 1_000 },
  );
  return nodeId;
}

/** Each object has slept, and the last that came in was an alarm: what is left of provisioning is over. */
function untilSteady(walk: Walk): Promise<true> {
  return until(
    "every object to be woken by its alarm alone",
    async () => {
      const latest = new Map(readMeter(logFile(walk)).map((wake) => [wake.object, wake]));
      const steady = [...latest.values()].filter(({ events }) => events.every(({ name }) => name === "alarm"));
      return latest.size === NODES && steady.length === NODES ? true : null;
    },
    { timeoutMs: SETTLE_MS, everyMs: 2_000 },
  );
}

async function measure(walk: Walk, from: number): Promise<Measured> {
  const firstFrame = walk.sessions.seen.length;
  const logFrom = readFileSync(logFile(walk), "utf8").length;
  await delay(WINDOW_MS);
  const to = Date.now();
  const frames: Record<string, number> = {};
  for (const { direction, kind } of walk.sessions.seen.slice(firstFrame)) {
    frames[`${direction} ${kind}`] = (frames[`${direction} ${kind}`] ?? 0) + 1;
  }
  // What an alarm at the very end writes belongs to it.
  await delay(2_000);
  const all = readMeter(logFile(walk));
  return {
    wakes: all.filter(({ at }) => at >= from && at < to),
    events: eventsSince(all, from).filter(({ at }) => at < to),
    frames,
    sweeps: readFileSync(logFile(walk), "utf8").slice(logFrom).split('"sweep":"node-timers"').length - 1,
  };
}

function print(measured: Measured): void {
  const alarms = alarmsOf(measured);
  const counts = alarmsByObject(measured).map((times) => times.length);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const wokenBy = (name: string) => measured.wakes.filter(({ events }) => events[0]?.name === name).length;
  const others = measured.events.filter(({ name }) => name !== "alarm");
  console.table({
    nodes: NODES,
    "window, s": WINDOW_MS / 1000,
    "beats (pings) seen": measured.frames["up ping"] ?? 0,
    "pongs seen": measured.frames["down pong"] ?? 0,
    "other frames seen": sum(Object.values(measured.frames)) - pingsAndPongs(measured),
    "objects woken by beats": measured.wakes.filter((wake) => !isAlarmOrTouch(wake)).length,
    "objects woken by their alarm": wokenBy("alarm"),
    "objects woken by the sweep's touch": wokenBy("touch"),
    "runs of the node-timers sweep": measured.sweeps,
    "rows written outside alarms": sum(others.map(({ rows, alarmWrites }) => rows + alarmWrites)),
    "rows written by wakes before their event": sum(measured.wakes.map(({ start }) => start.rows + start.alarmWrites)),
    alarms: alarms.length,
    "rows written in alarms, by SQL": sum(alarms.map(({ rows }) => rows)),
    "rows written in alarms, the next alarm": sum(alarms.map(({ alarmWrites }) => alarmWrites)),
    "most writes of one alarm": Math.max(...alarms.map(({ rows, alarmWrites }) => rows + alarmWrites)),
    "fewest alarms of a node": Math.min(...counts),
    "most alarms of a node": Math.max(...counts),
    "shortest time between two alarms of a node, s": Math.min(...gaps(measured)) / 1000,
  });
}

function pingsAndPongs({ frames }: Measured): number {
  return (frames["up ping"] ?? 0) + (frames["down pong"] ?? 0);
}

function isAlarmOrTouch({ events }: Wake): boolean {
  return events[0]?.name === "alarm" || events[0]?.name === "touch";
}

function alarmsOf({ events }: Measured): readonly MeteredEvent[] {
  return events.filter(({ name }) => name === "alarm");
}

/** When each object's alarms came. */
function alarmsByObject(measured: Measured): readonly (readonly number[])[] {
  return [...Map.groupBy(alarmsOf(measured), ({ object }) => object).values()].map((alarms) =>
    alarms.map(({ at }) => at),
  );
}

function gaps(measured: Measured): readonly number[] {
  return alarmsByObject(measured).flatMap((times) => times.slice(1).map((at, index) => at - (times[index] ?? 0)));
}

function eventsSince(wakes: readonly Wake[], from: number): readonly MeteredEvent[] {
  return wakes.flatMap(({ events }) => events).filter(({ at }) => at >= from);
}

function logFile(walk: Walk): string {
  return join(walk.stack.logsDir, "worker.log");
}
