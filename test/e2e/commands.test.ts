import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "../../dev/ready.ts";
import { CommandType } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { SeenFrame } from "../../sandbox/session-interposer.ts";
import { AGENT_WAYS, hostOf, requestNode, startWalk, untilSagaEnded, untilState, type Walk } from "./walk.ts";

const MANY = 100;
/** Seldom enough that all of the polling stays below the API's rate limit. */
const POLL_MS = 250;
const COMMAND_MS = 120_000;
const LOOK_MS = 50;
const ENDED = ["completed", "failed", "interrupted", "cancelled", "expired"];

describe.each(AGENT_WAYS)("commands to a node whose agent comes and goes (%s)", (way) => {
  let walk: Walk;
  let nodeId: string;
  let host: string;

  beforeAll(async () => {
    walk = await startWalk({ way });
    nodeId = await requestNode(walk.stack);
    await untilSagaEnded(walk.stack, nodeId, "provision-node");
    await untilState(walk.stack, nodeId, ["healthy"]);
    host = await hostOf(walk.stack, nodeId);
  });
  afterAll(async () => {
    await walk?.stop();
  });

  it("wait for an agent that is away, and are delivered and executed once when it returns", async () => {
    await killAgent();
    const chain = watchChain();
    const command = await send("RESTART");
    expect(await stateOf(command)).toBe("queued");
    await startAgent();
    expect(await untilEnded(command)).toBe("completed");
    await passMarker();
    expect(deliveries(command)).toBe(1);
    expect(await chain.pids()).toHaveLength(2);
  });

  it("expire when the agent stays away for longer than their time to live, and are never delivered", async () => {
    await killAgent();
    const command = await send("RESTART", 1);
    expect(await untilEnded(command)).toBe("expired");
    const chain = watchChain();
    await startAgent();
    await passMarker();
    expect(deliveries(command)).toBe(0);
    expect(await chain.pids()).toHaveLength(1);
  });

  it("are never delivered once they were cancelled", async () => {
    await killAgent();
    const command = await send("RESTART");
    await walk.stack.api.cancelCommand(nodeId, command);
    expect(await stateOf(command)).toBe("cancelled");
    const chain = watchChain();
    await startAgent();
    await passMarker();
    expect(deliveries(command)).toBe(0);
    expect(await chain.pids()).toHaveLength(1);
  });

  it("are not run a second time when the agent is killed right after one was delivered", async () => {
    const chain = watchChain();
    const { command, state } = await killDuring({ kind: "command", direction: "down" }, "after");
    expect(["interrupted", "completed"]).toContain(state);
    await passMarker();
    expect(deliveries(command)).toBe(2);
    // The marker starts the chain node where the interrupted RESTART had only stopped it.
    expect((await chain.pids()).length).toBeLessThanOrEqual(2);
  });

  it("are interrupted, and not run a second time, when the agent is killed in the middle of one", async () => {
    const chain = watchChain();
    const { command, state } = await killDuring({ kind: "commandAcknowledged", direction: "up" }, "after");
    expect(state).toBe("interrupted");
    await passMarker();
    expect(deliveries(command)).toBe(2);
    expect((await chain.pids()).length).toBeLessThanOrEqual(2);
  });

  it("are completed, and not run a second time, when the agent is killed before its report came through", async () => {
    const chain = watchChain();
    const { command, state } = await killDuring({ kind: "commandCompleted", direction: "up" }, "instead");
    expect(state).toBe("completed");
    await passMarker();
    expect(deliveries(command)).toBe(2);
    expect(await chain.pids()).toHaveLength(2);
  });

  it(`queue by the ${MANY}, and run one after the other in the order of their queueing`, async () => {
    await killAgent();
    const commands: string[] = [];
    for (let count = 0; count < MANY; count += 1) commands.push(await send("START"));
    const first = walk.sessions.seen.length;
    await startAgent();
    expect(await untilEnded(commands.at(-1) ?? "")).toBe("completed");
    const turns = walk.sessions.seen.slice(first).filter(({ kind }) => ["command", "commandCompleted"].includes(kind));
    expect(turns.map(({ kind, commandId }) => `${kind} ${commandId}`)).toEqual(
      commands.flatMap((command) => [`command ${command}`, `commandCompleted ${command}`]),
    );
  });

  /** Kills the agent, and waits until its object knows: by its own word, since events reach the API some time later. */
  async function killAgent(): Promise<void> {
    await walk.stack.hostRunner.signalAgent(host, "SIGKILL");
    await until(
      "the object to hear that its agent has gone",
      async () => {
        const { agents = [] } = await walk.stack.api.node(nodeId);
        // Without the object's answer there are none at all.
        return agents.length > 0 && agents.every(({ connected }) => !connected) ? agents : null;
      },
      { timeoutMs: 30_000, everyMs: POLL_MS },
    );
  }

  async function startAgent(): Promise<void> {
    await walk.stack.hostRunner.startAgent(host);
  }

  function send(type: string, ttlSeconds?: number): Promise<string> {
    return walk.stack.api.sendCommand(nodeId, type, ttlSeconds);
  }

  async function stateOf(command: string): Promise<string> {
    return (await walk.stack.api.command(nodeId, command)).state;
  }

  function untilEnded(command: string): Promise<string> {
    return until(
      `command ${command} to end`,
      async () => {
        const state = await stateOf(command);
        return ENDED.includes(state) ? state : null;
      },
      { timeoutMs: COMMAND_MS, everyMs: POLL_MS },
    );
  }

  /** A START changes nothing on a node that runs; commands are delivered in order, so all earlier ones had their turn. */
  async function passMarker(): Promise<void> {
    expect(await untilEnded(await send("START"))).toBe("completed");
  }

  function deliveries(command: string): number {
    return walk.sessions.seen.filter(({ kind, commandId }) => kind === "command" && commandId === command).length;
  }

  /** Sends a RESTART, kills the agent at the frame, and starts it again. */
  async function killDuring(frame: Pick<SeenFrame, "kind" | "direction">, boundary: "after" | "instead") {
    const killed = walk.sessions.once({
      matches: ({ kind, direction, commandType }) =>
        kind === frame.kind && direction === frame.direction && commandType === CommandType.RESTART,
      boundary,
      act: () => walk.stack.hostRunner.signalAgent(host, "SIGKILL"),
    });
    const command = await send("RESTART");
    await killed;
    await startAgent();
    return { command, state: await untilEnded(command) };
  }

  /** Looks for chain processes until it is asked which there were: each run of a RESTART adds one. */
  function watchChain() {
    const pids = new Set<number>();
    let watching = true;
    const look = async () => {
      while (watching) {
        const { chain } = await walk.stack.hostRunner.processes(host);
        for (const { pid } of chain) pids.add(pid);
        await delay(LOOK_MS);
      }
    };
    const looking = look();
    return {
      async pids(): Promise<readonly number[]> {
        watching = false;
        await looking;
        return [...pids];
      },
    };
  }
});
