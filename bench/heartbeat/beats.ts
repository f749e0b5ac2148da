import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { choosePort } from "../../agent-bridge/host-runner/ports.ts";
import { type DataDir, openDataDir } from "../../dev/data-dir.ts";
import { unlessInterrupted } from "../../dev/interrupt.ts";
import { createLog } from "../../ops-agent/log.ts";
import { BridgeWay } from "../../ops-agent/transport/grpc-way.ts";
import { DirectWay } from "../../ops-agent/transport/websocket.ts";
import {
  type BenchBridge,
  type BenchWorker,
  type Edge,
  type Meter,
  openBridge,
  startBare,
  startEdge,
  startProgram,
} from "../edge/places.ts";
import { type BeatFigures, compareBeats, type Subject } from "./beat-figures.ts";
import { closeAll, connectAgents, connectAll } from "./connect.ts";
import { echoLine, type Line, socketLine } from "./lines.ts";
import { measureIdle } from "./load.ts";
import type { Plan } from "./plan.ts";

export interface MeasureOptions {
  readonly directory: string;
  /** Where the agents have their states. */
  readonly hosts: string;
  readonly interrupted: AbortSignal;
  readonly say: (line: string) => void;
}

/** What the objects did while beats were measured at one number of nodes. */
export interface BeatMeter {
  readonly nodes: number;
  readonly beats: number;
  readonly woken: number;
  readonly events: number;
  readonly rowsWritten: number;
}

interface Places {
  readonly bare: BenchWorker;
  readonly edge: Edge;
  readonly bridge: BenchBridge;
  readonly echo: { readonly pid: number; readonly address: string };
  /** Every connection that has been made. */
  readonly lines: { readonly bare: Line[]; readonly direct: Line[]; readonly bridge: Line[]; readonly echo: Line[] };
}

/** Beats on a bare object, on ours directly and through the bridge, and on bare gRPC. */
export async function measureBeats(plan: Plan, options: MeasureOptions) {
  const { directory, interrupted, say } = options;
  say("start the bare object, the edge, the bridge and the echo server");
  const tools = await openDataDir(join(directory, "tools"));
  const bare = await startBare(join(directory, "bare"));
  const edge = await startEdge({ directory: join(directory, "edge"), clockSpeed: 1, database: "none" });
  const bridge = await openBridge(join(directory, "bridge"), edge.url);
  const echo = await startEcho(tools);
  const places = { bare, edge, bridge, echo, lines: { bare: [], direct: [], bridge: [], echo: [] } };
  try {
    return await unlessInterrupted(interrupted, measureAt(plan, places, options));
  } finally {
    for (const lines of Object.values(places.lines)) closeAll(lines);
    await echo.stop();
    await bridge.stop();
    await edge.stop();
    await bare.stop();
    tools.release();
  }
}

async function measureAt(plan: Plan, places: Places, options: MeasureOptions) {
  const subjects = subjectsOf(places);
  const beats: BeatFigures[] = [];
  const meters: BeatMeter[] = [];
  for (const nodes of plan.sizes) {
    options.say(`connect ${nodes} nodes each to the bare object, directly, through the bridge and to the echo server`);
    await connect(nodes, places, options.hosts);
    await places.edge.resetMeter();
    let answered = 0;
    for (const paced of plan.paces(nodes)) {
      options.say(`beats: ${nodes} nodes, ${paced.pace}, ${paced.rounds} rounds`);
      const figures = await compareBeats(nodes, subjects, paced);
      beats.push(...figures);
      answered += figures.reduce((total, each) => total + (each.subject in OURS ? each.answered : 0), 0);
    }
    meters.push(beatMeter(nodes, answered, Object.values(await places.edge.readMeter())));
  }
  return { beats, meters, idle: await idleOf(plan, subjects) };
}

/** The subjects whose beats come to objects of ours. */
const OURS = { direct: true, bridge: true };

function subjectsOf({ bare, edge, bridge, echo, lines }: Places): readonly Subject[] {
  const { objects, front } = edge.runtimes;
  return [
    { name: "bare", lines: lines.bare, processes: { edge: bare.runtimes.objects, front: bare.runtimes.front } },
    { name: "direct", lines: lines.direct, processes: { edge: objects, front } },
    { name: "bridge", lines: lines.bridge, processes: { edge: objects, front, bridge: bridge.process.pid } },
    { name: "echo", lines: lines.echo, processes: { echo: echo.pid } },
  ];
}

/** Adds lines of each kind until there are `nodes` of it. */
async function connect(nodes: number, { bare, edge, bridge, echo, lines }: Places, hosts: string): Promise<void> {
  const count = nodes - lines.bare.length;
  const address = bare.url.replace("http", "ws");
  const direct = new DirectWay(edge.url, createLog("silent", {}));
  const bridged = new BridgeWay({ url: bridge.url, mode: "stream" });
  lines.bare.push(...(await connectAll(count, () => socketLine(`${address}/${uuidv7()}`))));
  lines.direct.push(...(await connectAgents(count, { edge, way: direct, hosts, state: "provisioning" })));
  lines.bridge.push(...(await connectAgents(count, { edge, way: bridged, hosts, state: "provisioning" })));
  lines.echo.push(...(await connectAll(count, () => echoLine(echo.address))));
}

function beatMeter(nodes: number, beats: number, meters: readonly Meter[string][]): BeatMeter {
  const total = (of: (meter: Meter[string]) => number) => meters.reduce((sum, meter) => sum + of(meter), 0);
  return {
    nodes,
    beats,
    woken: total(({ woken }) => woken),
    events: total(({ events }) => Object.values(events).reduce((sum, count) => sum + count, 0)),
    rowsWritten: total(({ rowsWritten, alarmsSet }) => rowsWritten + alarmsSet),
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
