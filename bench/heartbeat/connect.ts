import { uuidv7 } from "uuidv7";
import type { Way } from "../../ops-agent/transport/way.ts";
import type { Edge } from "../edge/places.ts";
import { openInstallation } from "../fleet/installation.ts";
import { agentLine } from "./agent-line.ts";
import type { Line } from "./lines.ts";

/** New connections at a time: more would only queue. */
const PARALLEL = 20;
/** Nodes that are made by one request. */
const BATCH = 200;

export interface AgentsToConnect {
  readonly edge: Edge;
  readonly way: Way;
  /** Directory of the agents' states. */
  readonly hosts: string;
  /** In `provisioning` a node has no alarm, so that nothing but what the agent sends costs anything. */
  readonly state: "provisioning" | "syncing";
}

/** Makes nodes at the edge and has an agent of each in session. */
export async function connectAgents(count: number, agents: AgentsToConnect): Promise<readonly Line[]> {
  const { edge, way, hosts, state } = agents;
  const lines: Line[] = [];
  while (lines.length < count) {
    const nodeIds = Array.from({ length: Math.min(BATCH, count - lines.length) }, () => uuidv7());
    const nodes = await edge.makeNodes(nodeIds, state);
    const connected = await inLanes(nodes, (node) =>
      agentLine(way, node, openInstallation(hosts, node.nodeId, edge.masterSecret)),
    );
    lines.push(...connected);
  }
  return lines;
}

/** As many lines of one kind. */
export function connectAll(count: number, connect: () => Promise<Line>): Promise<readonly Line[]> {
  return inLanes(Array.from({ length: count }), connect);
}

export function closeAll(lines: readonly Line[]): void {
  for (const line of lines) line.close();
}

async function inLanes<T>(items: readonly T[], connect: (item: T) => Promise<Line>): Promise<readonly Line[]> {
  const lines: Line[] = [];
  const waiting = items.values();
  const lane = async () => {
    for (const item of waiting) lines.push(await connect(item));
  };
  await Promise.all(Array.from({ length: PARALLEL }, lane));
  return lines;
}
