import { Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { z } from "zod";
import { ERRORS, type ErrorCode, isErrorCode } from "../../domain/errors.ts";

/** Why a call ends, as gRPC says it: a status, and an error code of the registry in the trailing metadata. */
export class Refusal extends Error implements ServiceError {
  readonly code: status;
  readonly details: string;
  readonly metadata = new Metadata();
  readonly reason: ErrorCode;

  /** @param reconnectAfterMs a hint, of when the agent had better come back */
  constructor(code: status, reason: ErrorCode, details: string = ERRORS[reason].advice, reconnectAfterMs?: number) {
    super(details);
    this.code = code;
    this.reason = reason;
    this.details = `${reason}: ${details}`;
    this.metadata.set("orrery-code", reason);
    if (reconnectAfterMs !== undefined) this.metadata.set("orrery-reconnect-after-ms", String(reconnectAfterMs));
  }
}

/** How gRPC names what the edge refused over HTTP; without a code of the registry something else has answered. */
export function refusalOf(httpStatus: number, body: Uint8Array): Refusal {
  const reason = codeOf(body);
  return reason === null ? edgeUnreachable() : new Refusal(STATUS[httpStatus] ?? status.UNAVAILABLE, reason);
}

export function edgeUnreachable(details?: string): Refusal {
  return new Refusal(status.UNAVAILABLE, "edge_unreachable", details);
}

const problemSchema = z.object({ code: z.string() });

/** The code of a problem document, if it is one. */
function codeOf(body: Uint8Array): ErrorCode | null {
  try {
    const { code } = problemSchema.parse(JSON.parse(new TextDecoder().decode(body)));
    return isErrorCode(code) ? code : null;
  } catch {
    return null;
  }
}

const STATUS: Readonly<Record<number, status>> = {
  400: status.INVALID_ARGUMENT,
  401: status.UNAUTHENTICATED,
  403: status.PERMISSION_DENIED,
  404: status.NOT_FOUND,
  409: status.ABORTED,
  413: status.INVALID_ARGUMENT,
  415: status.INVALID_ARGUMENT,
  422: status.INVALID_ARGUMENT,
  429: status.RESOURCE_EXHAUSTED,
};
