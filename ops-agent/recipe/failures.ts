import { errorCodeOf, OrreryError } from "../../domain/errors.ts";
import { errnoOf } from "./data-dir.ts";

/** The error of our registry for whatever a step threw, with the step's name in its message. */
export function stepError(step: string, thrown: unknown): OrreryError {
  const code = errorCodeOf(thrown);
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const errno = errnoOf(thrown) ?? (thrown instanceof Error ? errnoOf(thrown.cause) : null);
  if (errno === "ENOSPC" || errno === "EDQUOT") {
    return new OrreryError("disk_full", `Step "${step}": the data disk is full.`, { step }, { cause: thrown });
  }
  return new OrreryError(code ?? "step_failed", `Step "${step}": ${message}`, { step }, { cause: thrown });
}

export function stepTimeout(step: string, timeoutMs: number): OrreryError {
  return new OrreryError("step_timeout", `Step "${step}" took longer than its timeout of ${timeoutMs / 1_000} s.`, {
    step,
  });
}
