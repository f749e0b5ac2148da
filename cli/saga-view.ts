import { setTimeout as delay } from "node:timers/promises";
import { listOf, type Saga, type SagaStep, sagaSchema } from "./answers.ts";
import type { ApiClient } from "./api.ts";
import { Failure } from "./failure.ts";
import type { Session } from "./session.ts";

const POLL_MS = 500;
const MARKS: Readonly<Record<string, string>> = { running: "…", succeeded: "✓", failed: "✗", skipped: "-" };

/** A node's sagas, each with its steps. */
export async function readSagas(api: ApiClient, nodeId: string): Promise<readonly Saga[]> {
  const answer = await api.get(`/nodes/${encodeURIComponent(nodeId)}/saga`, listOf(sagaSchema));
  return answer.items;
}

/**
 * Shows a saga's steps as they begin and end, until it has ended.
 * @throws Failure saga_failed, saga_superseded, wait_timeout
 */
export async function followSaga(
  api: ApiClient,
  session: Session,
  target: { readonly nodeId: string; readonly workflow: string; readonly timeoutMs: number },
): Promise<Saga> {
  const deadline = performance.now() + target.timeoutMs;
  const shown = new Map<string, string>();
  for (;;) {
    const saga = (await readSagas(api, target.nodeId)).find(({ workflow }) => workflow === target.workflow);
    for (const step of saga?.steps ?? []) showOnChange(session, step, shown);
    if (saga !== undefined && saga.status !== "running") return requireSuccess(saga);
    if (performance.now() > deadline) throw waitTimeout(target);
    await delay(POLL_MS);
  }
}

/** One line per step: how it stands and how long it took. */
export function stepLine({ name, status, started_at, ended_at, detail }: SagaStep): string {
  const tookMs = ended_at === null ? null : Date.parse(ended_at) - Date.parse(started_at);
  const took = tookMs === null ? "" : `  ${(tookMs / 1000).toFixed(1)} s`;
  return `${MARKS[status] ?? status} ${name}${took}${detail === null ? "" : `  ${detail}`}`;
}

function showOnChange(session: Session, step: SagaStep, shown: Map<string, string>): void {
  if (shown.get(step.name) === step.status) return;
  shown.set(step.name, step.status);
  session.remark(stepLine(step));
}

function requireSuccess(saga: Saga): Saga {
  if (saga.status === "succeeded") return saga;
  throw new Failure({
    code: saga.code ?? `saga_${saga.status}`,
    message: `${saga.id} ended ${saga.status}${saga.message === null ? "" : `: ${saga.message}`}.`,
    advice: "Look at the node's steps and events: orrery nodes get <node>, orrery nodes events <node>.",
    details: { saga_id: saga.id },
  });
}

function waitTimeout({ nodeId, workflow, timeoutMs }: { nodeId: string; workflow: string; timeoutMs: number }) {
  return new Failure({
    code: "wait_timeout",
    message: `${workflow} of node ${nodeId} has not ended after ${Math.round(timeoutMs / 1000)} s; it goes on.`,
    advice: `Look again with: orrery nodes get ${nodeId}`,
    details: { node_id: nodeId },
  });
}
