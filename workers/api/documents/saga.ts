import { z } from "@hono/zod-openapi";
import type { SagaRow, SagaStepRow } from "../../../db/sagas.ts";
import { instant, maybeInstant, toInstant, toMaybeInstant } from "../fields.ts";

const stepSchema = z
  .strictObject({
    name: z.string(),
    status: z.enum(["running", "succeeded", "failed", "skipped"]),
    attempts: z.int(),
    started_at: instant,
    ended_at: maybeInstant,
    detail: z.string().nullable(),
  })
  .openapi("SagaStep");

const partialFailureSchema = z.strictObject({ step: z.string(), code: z.string(), message: z.string() });

export const sagaSchema = z
  .strictObject({
    id: z.string(),
    workflow: z.string(),
    status: z.enum(["running", "succeeded", "failed", "superseded"]),
    step: z.string().nullable(),
    code: z.string().nullable(),
    message: z.string().nullable(),
    partial_failures: z.array(partialFailureSchema),
    restarts: z.int(),
    requested_by: z.string(),
    created_at: instant,
    ended_at: maybeInstant,
    steps: z.array(stepSchema),
  })
  .openapi("Saga");

export function toSaga(saga: SagaRow, steps: readonly SagaStepRow[]): z.output<typeof sagaSchema> {
  return {
    id: saga.id,
    workflow: saga.workflow,
    status: sagaSchema.shape.status.parse(saga.status),
    step: saga.step,
    code: saga.code,
    message: saga.message,
    partial_failures: z.array(partialFailureSchema).parse(saga.partialFailures),
    restarts: saga.restarts,
    requested_by: saga.requestedBy,
    created_at: toInstant(saga.createdAt),
    ended_at: toMaybeInstant(saga.endedAt),
    steps: steps.map((step) => ({
      name: step.name,
      status: stepSchema.shape.status.parse(step.status),
      attempts: step.attempts,
      started_at: toInstant(step.startedAt),
      ended_at: toMaybeInstant(step.endedAt),
      detail: step.detail,
    })),
  };
}
