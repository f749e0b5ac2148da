import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { NodeAnswer, Saga } from "../../cli/answers.ts";
import { requireNoProcesses } from "../../dev/leftovers.ts";
import { until } from "../../dev/ready.ts";
import { type Stack, type StackOptions, startStack } from "../../dev/stack.ts";
import { type HttpInterposer, startHttpInterposer } from "../../sandbox/http-interposer.ts";
import { type SessionInterposer, startSessionInterposer } from "../../sandbox/session-interposer.ts";

/** A whole deployment whose lines to the host runner and to the agents pass through interposers. */
export interface Walk {
  readonly stack: Stack;
  readonly provider: HttpInterposer;
  readonly sessions: SessionInterposer;
  /** A host's directory on this machine: its disk. */
  hostDir(providerHostId: string): string;
  stop(): Promise<void>;
}

export interface WalkOptions extends Pick<StackOptions, "cronEveryMs" | "entry"> {
  /** Starts a bridge of the test's own in front of the edge, and answers its address; agents are given that one. */
  readonly bridgeTo?: (edgeUrl: string) => Promise<string>;
  /** How agents come to the edge: through the bridge by a stream unless said otherwise. */
  readonly way?: AgentWay;
}

export const AGENT_WAYS = ["bridge by stream", "bridge by unary calls", "direct"] as const;
export type AgentWay = (typeof AGENT_WAYS)[number];

const SAGA_MS = 90_000;
const CRON_EVERY_MS = 2_000;

/** The cron trigger is driven by hand, and the Worker is the product's, unless `options` say otherwise. */
export async function startWalk({ bridgeTo, way, ...options }: WalkOptions = {}): Promise<Walk> {
  const dataDir = mkdtempSync(join(tmpdir(), "orrery-e2e-"));
  const lines: { provider?: HttpInterposer; sessions?: SessionInterposer } = {};
  const stack = await startStack({
    repoDir: join(import.meta.dirname, "../.."),
    dataDir,
    watch: false,
    cronEveryMs: null,
    ...options,
    agents: { bridge: { mode: way === "bridge by unary calls" ? "unary" : "stream" } },
    interpose: {
      bridgeUrl: async (url, edgeUrl) => {
        if (way === "direct") return null;
        return bridgeTo === undefined ? url : bridgeTo(edgeUrl);
      },
      hostRunnerUrl: async (url) => {
        lines.provider = await startHttpInterposer(url);
        return lines.provider.url;
      },
      publicUrl: async (url) => {
        lines.sessions = await startSessionInterposer(url);
        return lines.sessions.url;
      },
    },
  });
  const { provider, sessions } = lines;
  if (provider === undefined || sessions === undefined) throw new Error("The stack did not ask for its interposers.");
  return {
    stack,
    provider,
    sessions,
    hostDir: (providerHostId) => join(dataDir, "hosts/hosts", providerHostId),
    async stop() {
      await stack.stop();
      await provider.stop();
      await sessions.stop();
      requireNoProcesses(dataDir);
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

export async function requestNode(stack: Stack): Promise<string> {
  return stack.api.createNode(await stack.api.createSubscription("anvil", "full"));
}

/** Drives the cron trigger, as the platform would (only sooner), until the node's saga has ended. */
export function untilSagaEnded(stack: Stack, nodeId: string, workflow: string): Promise<Saga> {
  let lastCron = 0;
  return until(
    `${workflow} of ${nodeId} to end`,
    async () => {
      if (performance.now() - lastCron > CRON_EVERY_MS) {
        lastCron = performance.now();
        await stack.runCron();
      }
      const saga = (await stack.api.sagas(nodeId)).find((candidate) => candidate.workflow === workflow);
      return saga === undefined || saga.status === "running" ? null : saga;
    },
    { timeoutMs: SAGA_MS, everyMs: 200 },
  );
}

export function untilState(
  stack: Stack,
  nodeId: string,
  states: readonly string[],
  timeoutMs = 30_000,
): Promise<NodeAnswer> {
  return until(
    `node ${nodeId} to be ${states.join(" or ")}`,
    async () => {
      const node = await stack.api.node(nodeId);
      return states.includes(node.state) ? node : null;
    },
    { timeoutMs, everyMs: 100 },
  );
}

/** The provider's id of the one host that the node has. */
export async function hostOf(stack: Stack, nodeId: string): Promise<string> {
  const [host, ...others] = (await stack.hostRunner.hosts()).filter(({ tag }) => tag.includes(nodeId));
  if (host === undefined || others.length > 0) throw new Error(`Node ${nodeId} has not one host.`);
  return host.providerHostId;
}

export interface Footprint {
  readonly hosts: number;
  readonly agents: number;
  readonly chainProcesses: number;
}

/** What of the node exists on this machine right now. */
export async function footprint(stack: Stack, nodeId: string): Promise<Footprint> {
  const hosts = (await stack.hostRunner.hosts()).filter((host) => host.tag.includes(nodeId));
  const processes = await Promise.all(hosts.map((host) => stack.hostRunner.processes(host.providerHostId)));
  return {
    hosts: hosts.length,
    agents: processes.filter(({ agent }) => agent.alive).length,
    chainProcesses: processes.flatMap(({ chain }) => chain).filter(({ alive }) => alive).length,
  };
}
