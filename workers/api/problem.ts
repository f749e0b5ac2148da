import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { ERRORS, type ErrorCode, type ErrorData, OrreryError, toErrorData } from "../../domain/errors.ts";
import { errorText, log } from "../../durable-objects/shared/log.ts";
import type { ApiContext } from "./context.ts";

/** Answers a thrown value as problem+json (RFC 9457); what carries no code of ours says nothing of its cause. */
export function problemOf(thrown: unknown, c: ApiContext): Response {
  const error = toErrorData(fromHttpException(thrown));
  const { status, advice } = ERRORS[error.code];
  if (status >= 500) logFailure(error, thrown, c);
  // What is wrong with the settings is for the log, not for whoever sent the request.
  const hidden = error.code === "configuration_invalid";
  const body = {
    ...(hidden ? {} : error.details),
    type: `/api/v1/docs#${error.code}`,
    title: titleOf(error.code),
    status,
    code: error.code,
    detail: hidden ? "The deployment is not set up completely." : error.message,
    advice,
    correlation_id: c.get("correlationId"),
  };
  const headers = new Headers({ "content-type": "application/problem+json" });
  if (status === 401) headers.set("www-authenticate", error.code === "agent_unauthenticated" ? "Ticket" : "Bearer");
  const { retry_after: retryAfter, allow } = error.details;
  if (typeof retryAfter === "number") headers.set("retry-after", String(retryAfter));
  if (Array.isArray(allow)) headers.set("allow", allow.join(", "));
  return c.newResponse(JSON.stringify(body), toStatus(status), Object.fromEntries(headers));
}

/** What the framework itself throws, in our words. */
function fromHttpException(thrown: unknown): unknown {
  if (!(thrown instanceof HTTPException)) return thrown;
  const code: Partial<Record<number, ErrorCode>> = {
    400: "malformed_json",
    413: "body_too_large",
    415: "unsupported_media_type",
  };
  return new OrreryError(code[thrown.status] ?? "internal", thrown.message);
}

function logFailure(error: ErrorData, thrown: unknown, c: ApiContext): void {
  log("error", "request failed", {
    correlation_id: c.get("correlationId"),
    code: error.code,
    error: errorText(thrown),
    cause: thrown instanceof Error && thrown.cause !== undefined ? errorText(thrown.cause) : null,
  });
}

/** `idempotency_key_reused` -> "Idempotency key reused". */
function titleOf(code: ErrorCode): string {
  const words = code.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const STATUSES: readonly ContentfulStatusCode[] = [
  400, 401, 403, 404, 405, 409, 413, 415, 422, 426, 429, 502, 503, 504,
];

function toStatus(status: number): ContentfulStatusCode {
  return STATUSES.find((known) => known === status) ?? 500;
}
