import { Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { ERRORS, type ErrorCode } from "../../domain/errors.ts";

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

/** How gRPC names what the edge refused over HTTP. */
export function refusalOf(httpStatus: number, reason: ErrorCode): Refusal {
  return new Refusal(STATUS[httpStatus] ?? status.UNAVAILABLE, reason);
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
