import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { choosePort } from "../../agent-bridge/host-runner/ports.ts";
import { type DataDir, openDataDir } from "../../dev/data-dir.ts";
import { unlessInterrupted } from "../../dev/interrupt.ts";
import { createLog } from "../../ops-agent/log.ts";
import { DirectWay } from "../../ops-agent/transport/websocket.ts";
import { type BenchWorker, type Edge, type Meter, startBare, startEdge, startProgram } from "../edge/places.ts";
import { type BeatFigures, measureBeats, type Subject } from "./beats.ts";
import { closeAll, connectAgents, connectAll } from "./connect.ts";
import { echoLine, type Line, socketLine } from "./lines.ts";
import { measureIdle } from "./load.ts";
import { weigh } from "./memory.ts";
import type { Plan } from "./plan.ts";

export interface StandingOptions {
  readonly directory: string;
  /** Where the agents have their states. */
  readonly hosts: string;
  readonly interrupted: AbortSignal;
  readonly say: (line: string) => void;
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

interface Places {
  readonly bare: BenchWorker;
  readonly edge: Edge;
  readonly echo: { readonly pid: number; readonly address: string };
  /** Every connection that has been made. */
  readonly lines: { readonly bare: Line[]; readonly direct: Line[]; readonly echo: Line[] };
}

/** Memory and beats, on Workers whose clock is the machine's. */
export async function measureStanding(plan: Plan, options: StandingOptions) {
  const { directory, interrupted, say } = options;
  say("build and start the bare object's Worker, the product's, the bridge and the echo server");
  const tools = await openDataDir(join(directory, "tools"));
  const bare = await startBare(join(directory, "bare"));
  const edge = await startEdge({ directory: join(directory, "edge"), clockSpeed: 1 });
  const echo = await startEcho(tools);
  const places = { bare, edge, echo, lines: { bare: [], direct: [], echo: [] } };
  try {
    return await unlessInterrupted(interrupted, measureAt(plan, places, options));
  } finally {
    for (const lines of Object.values(places.lines)) closeAll(lines);
    await echo.stop();
    await edge.stop();
    await bare.stop();
    tools.release();
  }
}

async function measureAt(plan: Plan, places: Places, options: StandingOptions) {
  const memory = await weighBoth(plan, places, options);
  const most = plan.sizes.at(-1) ?? 0;
  options.say(`connect ${most} nodes to the echo server`);
  const { bare, edge, echo, lines } = places;
  lines.echo.push(...(await connectAll(most, () => echoLine(echo.address))));
  const subjects: readonly Subject[] = [
    { name: "bare", lines: lines.bare, processes: { edge: bare.runtimes.objects, front: bare.runtimes.front } },
    { name: "direct", lines: lines.direct, processes: { edge: edge.runtimes.objects, front: edge.runtimes.front } },
    { name: "echo", lines: lines.echo, processes: { echo: echo.pid } },
  ];
  const beats: BeatFigures[] = [];
  const meters: BeatMeter[] = [];
  for (const nodes of plan.sizes) {
    await edge.resetMeter();
    for (const paced of plan.paces(nodes)) {
      const names = subjects.map(({ name }) => name).join(", ");
      options.say(`beats: ${nodes} nodes, ${paced.pace}, ${paced.rounds} rounds of ${names}`);
      beats.push(...(await measureBeats(nodes, subjects, paced)));
    }
    meters.push(beatMeter(nodes, Object.values(await edge.readMeter())));
  }
  return { memory, beats, meters, idle: await idleOf(plan, subjects) };
}

async function weighBoth(plan: Plan, { bare, edge, lines }: Places, { hosts, say }: StandingOptions) {
  const { batches, nodesPerBatch } = plan.memory;
  say(`memory: ${batches} batches of ${nodesPerBatch} nodes, bare and ours`);
  const direct = new DirectWay(edge.url, createLog("silent", {}));
  const address = bare.url.replace("http", "ws");
  const [ofBare, ofOurs] = await Promise.all([
    weigh(plan.memory, bare.runtimes.objects, async (nodes) => {
      lines.bare.push(...(await connectAll(nodes, () => socketLine(`${address}/${uuidv7()}`))));
    }),
    weigh(plan.memory, edge.runtimes.objects, async (nodes) => {
      lines.direct.push(...(await connectAgents(edge, direct, nodes, hosts)));
    }),
  ]);
  return { bare: ofBare, ours: ofOurs };
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
async function idleOf(plan: Plan, subjects: readonly Subject[]): Promise<Readonly<Record<string, number>>> {
  const idle: Record<string, number> = {};
  for (const { name, processes } of subjects) {
    const { cpu, seconds } = await measureIdle(plan.idleMs, processes);
    for (const [process, micros] of Object.entries(cpu)) idle[`${name}: ${process}`] = micros / 1_000 / seconds;
  }
  return idle;
}

async function startEcho(tools: DataDir) {
  const port = await choosePort(new Set(), Math.random);
  const { pid, stop } = startProgram(tools, "echo", ["bench/heartbeat/echo-server.ts", String(port)]);
  return { pid, stop, address: `127.0.0.1:${port}` };
}
