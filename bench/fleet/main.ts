import { rmSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { createLog } from "../../ops-agent/log.ts";
import { BridgeWay } from "../../ops-agent/transport/grpc-way.ts";
import type { Way } from "../../ops-agent/transport/way.ts";
import { DirectWay } from "../../ops-agent/transport/websocket.ts";
import { FleetAgent } from "./agent.ts";
import { hostsDirectory, openInstallation } from "./installation.ts";
import { type AgentRecord, type Answer, type Ask, askSchema, type StartAsk } from "./protocol.ts";

/** Many agents in one process, started and asked by the parent over the process's own channel (bench/fleet/fleet.ts). */

const agents: FleetAgent[] = [];
const hosts = hostsDirectory();
/** Agents that ended though nobody stopped them. */
const problems: string[] = [];

async function answer(ask: Ask): Promise<readonly AgentRecord[]> {
  switch (ask.kind) {
    case "start":
      await start(ask);
      return [];
    case "release":
      for (const agent of agents) agent.release();
      return [];
    case "read":
      if (problems.length > 0) throw new Error(problems.join("\n"));
      return agents.map(recordOf);
    case "stop":
      await Promise.all(agents.map((agent) => agent.stop()));
      return agents.map(recordOf);
  }
}

async function start({ agents: expected, perSecond, masterSecret, controlUrl, bridge }: StartAsk): Promise<void> {
  const direct = new DirectWay(controlUrl, createLog("silent", {}));
  const ways: readonly [Way, ...Way[]] = bridge === null ? [direct] : [new BridgeWay(bridge), direct];
  for (const node of expected) {
    const agent = new FleetAgent(node, openInstallation(hosts, node.nodeId, masterSecret), ways);
    agents.push(agent);
    agent.run().catch((error: unknown) => problems.push(String(error)));
    await delay(1_000 / perSecond);
  }
}

function recordOf(agent: FleetAgent): AgentRecord {
  const { nodeId, record, executions } = agent;
  return { nodeId, ...record, executions: Object.fromEntries(executions), runningIds: [...agent.runningIds()] };
}

async function reply(raw: unknown): Promise<void> {
  const { id, ask } = askSchema.parse(raw);
  let said: Answer;
  try {
    said = { id, problem: null, records: [...(await answer(ask))] };
  } catch (error) {
    said = { id, problem: error instanceof Error ? error.message : String(error), records: [] };
  }
  process.send?.(said);
}

process.on("message", (raw) => void reply(raw));
// The parent has ended, in whatever way: so does its fleet.
process.on("disconnect", () => process.exit(0));
process.on("exit", () => rmSync(hosts, { recursive: true, force: true }));
