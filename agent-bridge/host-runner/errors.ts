/** What the runner answers instead of a host: its own codes, as any cloud has its own. */
export type RunnerErrorCode =
  | "unauthenticated"
  | "invalid_request"
  | "not_found"
  | "tag_in_use"
  | "host_off"
  | "internal";

const STATUS: Record<RunnerErrorCode, number> = {
  unauthenticated: 401,
  invalid_request: 400,
  not_found: 404,
  tag_in_use: 409,
  host_off: 409,
  internal: 500,
};

export class RunnerError extends Error {
  readonly code: RunnerErrorCode;

  constructor(code: RunnerErrorCode, message: string) {
    super(message);
    this.name = "RunnerError";
    this.code = code;
  }

  get status(): number {
    return STATUS[this.code];
  }
}
