import { and, asc, eq, inArray, ne, sql } from "drizzle-orm";
import type { ErrorCode } from "../domain/errors.ts";
import type { SagaWorkflow } from "../domain/saga/ids.ts";
import type { SagaEnd } from "../domain/saga/repair.ts";
import type { SagaStepName } from "../domain/saga/steps.ts";
import type { Executor } from "./client.ts";
import { nodes, sagaSteps, sagas, subscriptions } from "./schema.ts";

export type SagaRow = typeof sagas.$inferSelect;
export type SagaStepRow = typeof sagaSteps.$inferSelect;

export interface NewSaga {
  readonly id: string;
  readonly tenant: string;
  readonly workflow: SagaWorkflow;
  readonly nodeId: string;
  readonly requestedBy: string;
}

/** A step that a best-effort saga could not do. */
export interface PartialFailure {
  readonly step: SagaStepName;
  readonly code: ErrorCode;
  readonly message: string;
}

/** Says that the saga should be running, in the caller's transaction. Answers false when its row is there already. */
export async function insertSaga(db: Executor, saga: NewSaga, now: Date): Promise<boolean> {
  const inserted = await db
    .insert(sagas)
    .values({ ...saga, status: "running", createdAt: now, updatedAt: now })
    .onConflictDoNothing()
    .returning({ id: sagas.id });
  return inserted.length > 0;
}

/** Says that a saga which failed should be running again. Answers false when it had not failed. */
export async function reopenSaga(db: Executor, id: string, now: Date): Promise<boolean> {
  const reopened = await db
    .update(sagas)
    .set({ status: "running", code: null, message: null, endedAt: null, restarts: 0, updatedAt: now, sweptAt: null })
    .where(and(eq(sagas.id, id), eq(sagas.status, "failed")))
    .returning({ id: sagas.id });
  return reopened.length > 0;
}

export async function findSaga(db: Executor, id: string): Promise<SagaRow | null> {
  const [row] = await db.select().from(sagas).where(eq(sagas.id, id));
  return row ?? null;
}

/** The node's sagas with their steps, oldest first. */
export async function sagasOfNode(
  db: Executor,
  nodeId: string,
): Promise<readonly { readonly saga: SagaRow; readonly steps: readonly SagaStepRow[] }[]> {
  const rows = await db.select().from(sagas).where(eq(sagas.nodeId, nodeId)).orderBy(asc(sagas.createdAt));
  const ids = rows.map(({ id }) => id);
  const steps =
    ids.length === 0
      ? []
      : await db.select().from(sagaSteps).where(inArray(sagaSteps.sagaId, ids)).orderBy(asc(sagaSteps.position));
  return rows.map((saga) => ({ saga, steps: steps.filter(({ sagaId }) => sagaId === saga.id) }));
}

/** The node's sagas, but this one, that should still be running. */
export async function otherRunningSagas(db: Executor, nodeId: string, exceptId: string): Promise<readonly SagaRow[]> {
  return db
    .select()
    .from(sagas)
    .where(and(eq(sagas.nodeId, nodeId), eq(sagas.status, "running"), ne(sagas.id, exceptId)));
}

export interface StepMark {
  readonly sagaId: string;
  readonly name: SagaStepName;
  readonly position: number;
}

/** A step begins, or is tried once more: its first start stays. */
export async function startStep(db: Executor, step: StepMark, attempt: number, now: Date): Promise<void> {
  await db
    .insert(sagaSteps)
    .values({ ...step, status: "running", attempts: attempt, startedAt: now })
    .onConflictDoUpdate({
      target: [sagaSteps.sagaId, sagaSteps.name],
      set: { status: "running", attempts: sql`greatest(${sagaSteps.attempts}, ${attempt})`, endedAt: null },
    });
  await db.update(sagas).set({ step: step.name, updatedAt: now }).where(eq(sagas.id, step.sagaId));
}

export type StepEnd = "succeeded" | "failed" | "skipped";

/** A step has ended; one that never began (skipped, or failed before it could) gets its row here. */
export async function endStep(
  db: Executor,
  step: StepMark,
  end: { readonly status: StepEnd; readonly detail: string | null },
  now: Date,
): Promise<void> {
  await db
    .insert(sagaSteps)
    .values({ ...step, ...end, startedAt: now, endedAt: now })
    .onConflictDoUpdate({ target: [sagaSteps.sagaId, sagaSteps.name], set: { ...end, endedAt: now } });
}

/** What went wrong at a try that will be repeated. */
export async function noteStep(db: Executor, step: StepMark, detail: string): Promise<void> {
  await db
    .update(sagaSteps)
    .set({ detail })
    .where(and(eq(sagaSteps.sagaId, step.sagaId), eq(sagaSteps.name, step.name)));
}

export interface SagaResult {
  readonly status: SagaEnd;
  readonly code: ErrorCode | null;
  readonly message: string | null;
  readonly partialFailures: readonly PartialFailure[];
}

/** Closes the saga's row once; a step still marked as running ended with it. Answers false when it was closed already. */
export async function endSaga(db: Executor, id: string, result: SagaResult, now: Date): Promise<boolean> {
  const ended = await db
    .update(sagas)
    .set({ ...result, partialFailures: [...result.partialFailures], endedAt: now, updatedAt: now })
    .where(and(eq(sagas.id, id), eq(sagas.status, "running")))
    .returning({ id: sagas.id });
  if (ended.length === 0) return false;
  await db
    .update(sagaSteps)
    .set({ status: "failed", endedAt: now })
    .where(and(eq(sagaSteps.sagaId, id), eq(sagaSteps.status, "running")));
  return true;
}

/** Rows that should be running, those first that were looked at longest ago; they count as looked at from now on. */
export async function takeSagasToSweep(
  db: Executor,
  tenant: string,
  limit: number,
  now: Date,
): Promise<readonly SagaRow[]> {
  const due = db
    .select({ id: sagas.id })
    .from(sagas)
    .where(and(eq(sagas.tenant, tenant), eq(sagas.status, "running")))
    .orderBy(sql`${sagas.sweptAt} asc nulls first`, asc(sagas.createdAt))
    .limit(limit);
  return db.update(sagas).set({ sweptAt: now }).where(inArray(sagas.id, due)).returning();
}

/** Counts a restart of an errored instance. Answers false when the row has ended meanwhile. */
export async function countRestart(db: Executor, id: string, now: Date): Promise<boolean> {
  const counted = await db
    .update(sagas)
    .set({ restarts: sql`${sagas.restarts} + 1`, updatedAt: now })
    .where(and(eq(sagas.id, id), eq(sagas.status, "running")))
    .returning({ id: sagas.id });
  return counted.length > 0;
}

export interface SagaNode {
  readonly node: typeof nodes.$inferSelect;
  readonly instanceType: string;
}

/** A node with what its subscription says of its host. */
export async function findNodeForSaga(db: Executor, tenant: string, nodeId: string): Promise<SagaNode | null> {
  const [row] = await db
    .select({ node: nodes, instanceType: subscriptions.instanceType })
    .from(nodes)
    .innerJoin(subscriptions, eq(subscriptions.id, nodes.subscriptionId))
    .where(and(eq(nodes.tenant, tenant), eq(nodes.id, nodeId)));
  return row ?? null;
}
