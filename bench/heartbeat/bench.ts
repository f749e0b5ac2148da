import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { choosePort } from "../../agent-bridge/host-runner/ports.ts";
import { openDataDir } from "../../dev/data-dir.ts";
import { createLog } from "../../ops-agent/log.ts";
import type { Way } from "../../ops-agent/transport/way.ts";
import { DirectWay } from "../../ops-agent/transport/websocket.ts";
import { type BenchWorker, type Edge, type Meter, startBare, startEdge, startProgram } from "../edge/places.ts";
import { hostsDirectory, openInstallation } from "../fleet/installation.ts";
import type { BenchOptions, BenchResult } from "../main.ts";
import { agentLine } from "./agent-line.ts";
import { type BeatFigures, type BeatPlan, measureBeats, type Subject } from "./beats.ts";
import { CLOCK_SPEED, type HourPlan, steadyHour } from "./hour.ts";
import { beatVerdicts, hourVerdicts, memoryVerdict } from "./limits.ts";
import { echoLine, type Line, socketLine } from "./lines.ts";
import { measureIdle } from "./load.ts";
import { type MemoryPlan, weigh } from "./memory.ts";
import { priceOf } from "./price.ts";
import { type HeartbeatFigures, report } from "./report.ts";

interface Plan {
  /** Numbers of nodes, the greatest last. */
  readonly sizes: readonly number[];
  readonly memory: MemoryPlan;
  readonly paces: (nodes: number) => readonly BeatPlan[];
  readonly idleMs: number;
  readonly hour: HourPlan;
}

const FULL: Plan = {
  sizes: [100, 1_000],
  memory: { batches: 7, nodesPerBatch: 200, settleMs: 13_000 },
  paces: (nodes) => [
    { pace: "closed loop", beats: "closed loop", windowMs: 5_000, rounds: 5 },
    { pace: "1,000 a second", beats: 1_000, windowMs: 8_000, rounds: 5 },
    { pace: "each 10 s", beats: nodes / 10, windowMs: 20_000, rounds: 3 },
  ],
  idleMs: 10_000,
  hour: { nodes: 200, hours: 1, rounds: 3 },
};

const QUICK: Plan = {
  sizes: [5, 20],
  memory: { batches: 3, nodesPerBatch: 20, settleMs: 11_000 },
  paces: (nodes) => [
    { pace: "closed loop", beats: "closed loop", windowMs: 500, rounds: 2 },
    { pace: "each 10 s", beats: nodes / 10, windowMs: 2_000, rounds: 1 },
  ],
  idleMs: 1_000,
  hour: { nodes: 10, hours: 0.05, rounds: 1 },
};

/** New connections at a time: more would only queue. */
const CONNECTING = 20;
const BATCH = 200;

export const heartbeat = {
  about: "what a beat, an idle node's memory and a steady hour of a node cost, beside a bare object and bare gRPC",
  run,
};

async function run({ quick, say }: BenchOptions): Promise<BenchResult> {
  const plan = quick ? QUICK : FULL;
  const directory = mkdtempSync(join(tmpdir(), "orrery-bench-"));
  const hosts = hostsDirectory();
  try {
    const standing = await measureStanding(plan, { directory, hosts }, say);
    say(`a steady hour of ${plan.hour.nodes} nodes, with a clock ${CLOCK_SPEED} times as fast`);
    const hour = await measureHour(plan, { directory, hosts });
    const price = priceOf(hour.perNode, hour.eventMicros.touch);
    const verdicts = [
      ...hourVerdicts(hour, price),
      memoryVerdict(standing.memory.ours, standing.memory.bare),
      ...beatVerdicts(standing.beats),
    ];
    const figures: HeartbeatFigures = { quick, ...standing, hour, price, verdicts };
    return { figures, text: report(figures) };
  } finally {
    rmSync(directory, { recursive: true, force: true });
    rmSync(hosts, { recursive: true, force: true });
  }
}

interface Places {
  readonly directory: string;
  readonly hosts: string;
}

/** Memory and beats, on Workers that run at the real pace. */
async function measureStanding(plan: Plan, { directory, hosts }: Places, say: (line: string) => void) {
  say("build and start the bare object's Worker, the product's, the bridge and the echo server");
  const tools = await openDataDir(join(directory, "tools"));
  const bare = await startBare(join(directory, "bare"));
  const edge = await startEdge({ directory: join(directory, "edge"), clockSpeed: 1 });
  const echo = await startEcho(tools);
  try {
    const bareLines: Line[] = [];
    const ourLines: Line[] = [];
    const direct = new DirectWay(edge.url, createLog("silent", {}));
    const memory = {
      batches: plan.memory,
      ...(await weighBoth(plan, { bare, edge, bareLines, ourLines, direct, hosts }, say)),
    };
    const most = plan.sizes.at(-1) ?? 0;
    say(`connect ${most} nodes to the echo server`);
    const echoLines = await connectAll(most, () => echoLine(echo.address));
    const subjects: readonly Subject[] = [
      { name: "bare", lines: bareLines, processes: { edge: bare.runtimes.objects, front: bare.runtimes.front } },
      { name: "direct", lines: ourLines, processes: { edge: edge.runtimes.objects, front: edge.runtimes.front } },
      { name: "echo", lines: echoLines, processes: { echo: echo.pid } },
    ];
    const { beats, meters } = await measureAllBeats(plan, subjects, edge, say);
    const idle = await idleOf(plan, subjects);
    return { memory, beats, meters, idle };
  } finally {
    await echo.stop();
    await edge.stop();
    await bare.stop();
    tools.release();
  }
}

interface Weighing {
  readonly bare: BenchWorker;
  readonly edge: Edge;
  readonly bareLines: Line[];
  readonly ourLines: Line[];
  readonly direct: Way;
  readonly hosts: string;
}

async function weighBoth(
  plan: Plan,
  { bare, edge, bareLines, ourLines, direct, hosts }: Weighing,
  say: (line: string) => void,
) {
  say(`memory: ${plan.memory.batches} batches of ${plan.memory.nodesPerBatch} nodes, bare and ours`);
  const [ofBare, ofOurs] = await Promise.all([
    weigh(plan.memory, bare.runtimes.objects, async (nodes) => {
      bareLines.push(...(await connectAll(nodes, () => socketLine(`${bare.url.replace("http", "ws")}/${uuidv7()}`))));
    }),
    weigh(plan.memory, edge.runtimes.objects, async (nodes) => {
      ourLines.push(...(await connectAgents(edge, direct, nodes, hosts)));
    }),
  ]);
  return { bare: ofBare, ours: ofOurs };
}

/** What the objects did while beats were measured at one number of nodes. */
export interface BeatMeter {
  readonly nodes: number;
  readonly woken: number;
  readonly alarms: number;
  /** What else came in at objects than alarms. */
  readonly others: number;
  readonly rowsWritten: number;
  readonly alarmsSet: number;
}

async function measureAllBeats(plan: Plan, subjects: readonly Subject[], edge: Edge, say: (line: string) => void) {
  const beats: BeatFigures[] = [];
  const meters: BeatMeter[] = [];
  for (const nodes of plan.sizes) {
    await edge.resetMeter();
    for (const paced of plan.paces(nodes)) {
      say(
        `beats: ${nodes} nodes, ${paced.pace}, ${paced.rounds} rounds of ${subjects.map(({ name }) => name).join(", ")}`,
      );
      beats.push(...(await measureBeats(nodes, subjects, paced)));
    }
    meters.push(beatMeter(nodes, Object.values(await edge.readMeter())));
  }
  return { beats, meters };
}

function beatMeter(nodes: number, meters: readonly Meter[string][]): BeatMeter {
  const total = (of: (meter: Meter[string]) => number) => meters.reduce((sum, meter) => sum + of(meter), 0);
  const calls = total(({ events }) => Object.values(events).reduce((sum, count) => sum + count, 0));
  const alarms = total(({ events }) => events.alarm ?? 0);
  return {
    nodes,
    woken: total(({ woken }) => woken),
    alarms,
    others: calls - alarms,
    rowsWritten: total(({ rowsWritten }) => rowsWritten),
    alarmsSet: total(({ alarmsSet }) => alarmsSet),
  };
}

/** CPU milliseconds a second of each process with all its nodes connected and no beat. */
async function idleOf(plan: Plan, subjects: readonly Subject[]) {
  const idle: Record<string, number> = {};
  for (const { name, processes } of subjects) {
    const { cpu, seconds } = await measureIdle(plan.idleMs, processes);
    for (const [process, micros] of Object.entries(cpu)) idle[`${name} ${process}`] = micros / 1_000 / seconds;
  }
  return idle;
}

async function measureHour(plan: Plan, { directory, hosts }: Places) {
  const edge = await startEdge({ directory: join(directory, "hour"), clockSpeed: CLOCK_SPEED });
  try {
    const direct = new DirectWay(edge.url, createLog("silent", {}));
    return await steadyHour(edge, plan.hour, (nodes) => connectAgents(edge, direct, nodes, hosts));
  } finally {
    await edge.stop();
  }
}

async function connectAgents(edge: Edge, way: Way, count: number, hosts: string): Promise<readonly Line[]> {
  const lines: Line[] = [];
  while (lines.length < count) {
    const nodes = await edge.makeNodes(Array.from({ length: Math.min(BATCH, count - lines.length) }, () => uuidv7()));
    const waiting = nodes.values();
    const connected = await connectAll(nodes.length, async () => {
      const { value: node } = waiting.next();
      if (node === undefined) throw new Error("There are fewer nodes than lines.");
      return agentLine(way, node, openInstallation(hosts, node.nodeId, edge.masterSecret));
    });
    lines.push(...connected);
  }
  return lines;
}

async function connectAll(count: number, connect: () => Promise<Line>): Promise<readonly Line[]> {
  const lines: Line[] = [];
  let asked = 0;
  const lane = async () => {
    while (asked < count) {
      asked += 1;
      lines.push(await connect());
    }
  };
  await Promise.all(Array.from({ length: CONNECTING }, lane));
  return lines;
}

async function startEcho(tools: Awaited<ReturnType<typeof openDataDir>>) {
  const port = await choosePort(new Set(), Math.random);
  const { pid, stop } = startProgram(tools, "echo", ["bench/heartbeat/echo-server.ts", String(port)]);
  return { pid, stop, address: `127.0.0.1:${port}` };
}
