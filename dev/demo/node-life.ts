import type { NodeAnswer, Saga, SagaStep } from "../../cli/answers.ts";
import { until } from "../ready.ts";
import type { Stack } from "../stack.ts";
import type { Display } from "./display.ts";

const PROVISION_MS = 180_000;
const HEALTHY_MS = 60_000;
/** Silence becomes `down` 120 s after the last beat; the rest is what the alarm and the way to Postgres may take. */
const DOWN_MS = 135_000;
const TERMINATE_MS = 120_000;
/** A wake-up that the queue lost is repeated by the object after 30 s. */
const EVENT_MS = 45_000;
const WATCH_MS = 100;

/** Asks for an anvil node and shows each step of its saga until it serves. */
export async function provisionNode(stack: Stack, display: Display): Promise<NodeAnswer> {
  const nodeId = await display.step("ask for an anvil node", async () => {
    const subscriptionId = await stack.api.createSubscription("anvil", "full");
    return stack.api.createNode(subscriptionId);
  });
  await showSaga(stack, display, nodeId, "provision-node", PROVISION_MS);
  return display.step("wait for healthy", () => waitForState(stack, nodeId, "healthy", HEALTHY_MS));
}

/** Shows the node's saga step by step. @throws Error when it ends otherwise than `succeeded`. */
async function showSaga(
  stack: Stack,
  display: Display,
  nodeId: string,
  workflow: string,
  timeoutMs: number,
): Promise<void> {
  const shown = new Set<string>();
  for (;;) {
    const next = await until(
      `the next step of ${workflow}`,
      async () => nextSight(await sagaOf(stack, nodeId, workflow), shown),
      { timeoutMs, everyMs: WATCH_MS },
    );
    if (next.kind === "ended") return requireSuccess(next.saga);
    shown.add(next.step.name);
    await display.step(next.step.name, (note) => followStep(stack, nodeId, workflow, next.step.name, timeoutMs, note));
  }
}

type Sight = { readonly kind: "ended"; readonly saga: Saga } | { readonly kind: "step"; readonly step: SagaStep };

function nextSight(saga: Saga | null, shown: ReadonlySet<string>): Sight | null {
  if (saga === null) return null;
  const step = saga.steps.find((candidate) => !shown.has(candidate.name));
  if (step !== undefined) return { kind: "step", step };
  return saga.status === "running" ? null : { kind: "ended", saga };
}

async function followStep(
  stack: Stack,
  nodeId: string,
  workflow: string,
  name: string,
  timeoutMs: number,
  note: (text: string) => void,
): Promise<void> {
  const step = await until(
    `${name} to end`,
    async () => {
      const saga = await sagaOf(stack, nodeId, workflow);
      const current = saga?.steps.find((candidate) => candidate.name === name);
      return current === undefined || current.ended_at === null ? null : current;
    },
    { timeoutMs, everyMs: WATCH_MS },
  );
  const tookMs = step.ended_at === null ? 0 : Date.parse(step.ended_at) - Date.parse(step.started_at);
  note([`${(tookMs / 1000).toFixed(1)} s in the saga`, step.status, step.detail ?? ""].filter(Boolean).join(", "));
  if (step.status === "failed") throw new Error(`${name} failed: ${step.detail ?? "no detail was given"}`);
}

async function sagaOf(stack: Stack, nodeId: string, workflow: string): Promise<Saga | null> {
  const sagas = await stack.api.sagas(nodeId);
  return sagas.find((saga) => saga.workflow === workflow) ?? null;
}

function requireSuccess(saga: Saga): void {
  if (saga.status === "succeeded") return;
  throw new Error(`The saga ${saga.id} ended ${saga.status}: ${saga.code ?? ""} ${saga.message ?? ""}`);
}

function waitForState(stack: Stack, nodeId: string, state: string, timeoutMs: number): Promise<NodeAnswer> {
  return until(
    `node ${nodeId} to be ${state}`,
    async () => {
      const node = await stack.api.node(nodeId);
      return node.state === state ? node : null;
    },
    { timeoutMs, everyMs: WATCH_MS },
  );
}

/** Calls the chain node's own RPC port. @returns its height. */
export async function chainHeight(node: NodeAnswer): Promise<number> {
  const url = node.endpoints.rpc;
  if (url === undefined) throw new Error(`Node ${node.id} reports no rpc endpoint.`);
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_blockNumber", params: [] }),
    signal: AbortSignal.timeout(5_000),
  });
  const answer: unknown = await response.json();
  if (typeof answer !== "object" || answer === null || !("result" in answer) || typeof answer.result !== "string") {
    throw new Error(`${url} did not answer eth_blockNumber: ${JSON.stringify(answer)}`);
  }
  return Number.parseInt(answer.result, 16);
}

/** Asks the bridge for its sessions. @throws Error when there is none: the agent connected directly. */
export async function requireBridged(stack: Stack): Promise<string> {
  const metrics = await (await fetch(`${stack.bridge.httpUrl}/metrics`)).text();
  const sessions = Number(/^orrery_bridge_sessions\{mode="stream"\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
  if (sessions === 0) throw new Error("The bridge has no session: the agent connected directly.");
  return `through the bridge ${stack.bridge.url}, ${sessions} session${sessions === 1 ? "" : "s"}`;
}

/** Kills the agent, waits for `down`, starts it again and waits for `healthy`. */
export async function killAndRecover(stack: Stack, display: Display, nodeId: string): Promise<void> {
  const host = await hostOf(stack, nodeId);
  await display.step("kill the agent (SIGKILL)", () => stack.hostRunner.signalAgent(host, "SIGKILL"));
  await display.step("wait for down", async (note) => {
    await waitForState(stack, nodeId, "down", DOWN_MS);
    const { at, lastBeatAt } = await downEvent(stack, nodeId);
    const silenceS = (at - lastBeatAt) / 1000;
    note(`${silenceS.toFixed(3)} s after the last beat`);
    if (silenceS >= 120 && silenceS <= 123) return;
    throw new Error(`The node was down ${silenceS} s after its last beat, not between 120 and 123 s.`);
  });
  await display.step("start the agent again", () => stack.hostRunner.startAgent(host));
  const node = await display.step("wait for healthy", () => waitForState(stack, nodeId, "healthy", HEALTHY_MS));
  await display.step("call eth_blockNumber", async (note) => note(`block ${await chainHeight(node)}`));
}

/** When the node went down, and its last beat before; its events follow its state by way of the queue. */
function downEvent(stack: Stack, nodeId: string): Promise<{ at: number; lastBeatAt: number }> {
  return until(
    "the change to down among the node's events",
    async () => {
      const events = await stack.api.events(nodeId);
      const down = events.find((event) => event.kind === "state_changed" && event.body.to === "down");
      const lost = events.findLast((event) => event.kind === "agent_disconnected");
      const lastBeatAt = lost?.body.last_beat_at;
      if (down === undefined || typeof lastBeatAt !== "string") return null;
      return { at: Date.parse(down.occurred_at), lastBeatAt: Date.parse(lastBeatAt) };
    },
    { timeoutMs: EVENT_MS },
  );
}

/** Terminates the node and shows each step of it. */
export async function terminateNode(stack: Stack, display: Display, nodeId: string): Promise<void> {
  await display.step("ask for its termination", () => stack.api.terminate(nodeId));
  await showSaga(stack, display, nodeId, "terminate-node", TERMINATE_MS);
  await display.step("wait for terminated", () => waitForState(stack, nodeId, "terminated", TERMINATE_MS));
}

/** The node's host at the runner. @throws Error unless there is exactly one. */
async function hostOf(stack: Stack, nodeId: string): Promise<string> {
  const hosts = (await stack.hostRunner.hosts()).filter((host) => host.tag.startsWith(`orrery-${nodeId}-`));
  const [host, ...more] = hosts;
  if (host === undefined || more.length > 0) throw new Error(`Node ${nodeId} has ${hosts.length} hosts, not one.`);
  return host.providerHostId;
}

/** @throws Error that names each host or saga of the node that is still there. */
export async function requireNothingLeft(stack: Stack, nodeId: string): Promise<void> {
  const hosts = (await stack.hostRunner.hosts()).filter((host) => host.tag.includes(nodeId));
  const sagas = (await stack.api.sagas(nodeId)).filter((saga) => saga.status === "running");
  const left = [...hosts.map((host) => `host ${host.providerHostId}`), ...sagas.map((saga) => `saga ${saga.id}`)];
  if (left.length > 0) throw new Error(`Left behind: ${left.join(", ")}.`);
}
