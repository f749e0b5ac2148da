import { endStep, noteStep, type StepMark, startStep } from "../../db/sagas.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { errorCodeOf, OrreryError } from "../../domain/errors.ts";
import { type SagaStepName, stepPosition } from "../../domain/saga/steps.ts";
import { errorText, log } from "../../durable-objects/shared/log.ts";
import type { SagaDeps, SagaRef } from "./deps.ts";
import { failureOf, mayPass, type StepFailure } from "./failures.ts";

/** What an activity answers; small, and never a secret: the engine keeps it. */
export interface StepReport {
  /** `pending`: the truth does not show it yet; wait, then look again. The step goes on. */
  readonly status: "succeeded" | "skipped" | "pending";
  /** For people: what was done, or why nothing was. */
  readonly detail: string | null;
  readonly commandId: string | null;
}

export type StepOutcome = ({ readonly ok: true } & StepReport) | ({ readonly ok: false } & StepFailure);

export type Activity = () => Promise<StepReport>;

export function succeeded(detail: string | null, commandId: string | null = null): StepReport {
  return { status: "succeeded", detail, commandId };
}

export function skipped(detail: string): StepReport {
  return { status: "skipped", detail, commandId: null };
}

export function pending(detail: string | null, commandId: string | null = null): StepReport {
  return { status: "pending", detail, commandId };
}

/**
 * One try of a step, with its row: running before the work, ended after it. No connection is held over the work.
 * @throws to ask the engine for another try; never at the last one for what the activity threw, unless Postgres was away
 */
export async function runRecorded(
  deps: SagaDeps,
  saga: SagaRef,
  name: SagaStepName,
  { attempt, isLast }: { readonly attempt: number; readonly isLast: boolean },
  activity: Activity,
): Promise<StepOutcome> {
  const mark: StepMark = { sagaId: saga.id, name, position: stepPosition(saga.workflow, name) };
  await deps.database((db) => startStep(db, mark, attempt, new Date(deps.now())));
  try {
    const report = await activity();
    if (report.status !== "pending") await recordEnd(deps, mark, report.status, report.detail);
    return assertResultSize({ ok: true, ...report });
  } catch (thrown) {
    // The step's row cannot be written either.
    if (errorCodeOf(thrown) === "database_unavailable") throw thrown;
    const failure = failureOf(thrown);
    log("warn", "saga step failed", {
      saga: saga.id,
      step: name,
      attempt,
      code: failure.code,
      error: errorText(thrown),
    });
    const detail = `${failure.code}: ${failure.message}`;
    if (!isLast && mayPass(thrown)) {
      await deps.database((db) => noteStep(db, mark, detail));
      throw thrown;
    }
    await recordEnd(deps, mark, "failed", detail);
    return { ok: false, ...failure };
  }
}

async function recordEnd(
  deps: SagaDeps,
  mark: StepMark,
  status: "succeeded" | "skipped" | "failed",
  detail: string | null,
): Promise<void> {
  await deps.database((db) => endStep(db, mark, { status, detail }, new Date(deps.now())));
}

/** The engine of production refuses what the local one takes. */
function assertResultSize(outcome: StepOutcome): StepOutcome {
  const bytes = new TextEncoder().encode(JSON.stringify(outcome)).byteLength;
  if (bytes <= DEFAULTS.limits.stepResultBytes) return outcome;
  throw new OrreryError("limit_exceeded", `A step result of ${bytes} bytes is larger than the platform's limit.`);
}
