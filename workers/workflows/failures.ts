import { type ErrorCode, errorCodeOf, toErrorData } from "../../domain/errors.ts";
import type { SagaStepName } from "../../domain/saga/steps.ts";

/** A step that failed for good, as data. */
export interface StepFailure {
  readonly code: ErrorCode;
  readonly message: string;
}

/** Thrown inside a saga's own body only, to leave it for compensation. */
export class SagaFailure extends Error {
  readonly step: SagaStepName;
  readonly failure: StepFailure;

  constructor(step: SagaStepName, failure: StepFailure) {
    super(`${step}: ${failure.code}: ${failure.message}`);
    this.name = "SagaFailure";
    this.step = step;
    this.failure = failure;
  }
}

/** What passes by itself. All other codes are answers, which asking again does not change. */
const PASSING: ReadonlySet<ErrorCode> = new Set(["database_unavailable", "internal", "state_changed"]);

/** Whether the step is worth another try. What carries no code is a fault of the platform or ours, and may pass. */
export function mayPass(thrown: unknown): boolean {
  const code = errorCodeOf(thrown);
  if (code === null || PASSING.has(code)) return true;
  return toErrorData(thrown).details.retryable === true;
}

export function failureOf(thrown: unknown): StepFailure {
  const { code, message } = toErrorData(thrown);
  return { code, message };
}

/**
 * Whether what `step.do` threw means that the engine itself was reset (deploy, crash), and not that the step failed. The
 * engine then runs the instance anew from its finished steps, so the error must leave `run` untouched.
 */
export function isPlatformReset(thrown: unknown): boolean {
  if (typeof thrown !== "object" || thrown === null) return false;
  const { durableObjectReset, overloaded }: { durableObjectReset?: unknown; overloaded?: unknown } = thrown;
  if (durableObjectReset === true || overloaded === true) return true;
  const message = thrown instanceof Error ? thrown.message : "";
  return RESET_MESSAGES.some((text) => message.includes(text));
}

/** The platform's own texts; it gives them no code when they cross into a workflow. */
const RESET_MESSAGES = [
  "Aborting engine:",
  "Durable Object reset because its code was updated",
  "Network connection lost",
  "The destination execution context for this RPC was canceled",
  "The execution context responsible for calling this function was canceled",
];
