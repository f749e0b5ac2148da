/** What every failed command tells: a code, a sentence, what to do, and the id that finds it in the deployment's log. */
export interface FailureParts {
  readonly code: string;
  readonly message: string;
  readonly advice: string;
  readonly correlationId?: string | null;
  /** Whatever else the API's problem document holds, such as `issues`. */
  readonly details?: Readonly<Record<string, unknown>>;
}

export class Failure extends Error {
  readonly parts: FailureParts;

  constructor(parts: FailureParts, options?: ErrorOptions) {
    super(parts.message, options);
    this.name = "Failure";
    this.parts = parts;
  }
}

/** The command line itself was wrong (exit code 2). */
export class UsageFailure extends Failure {
  constructor(message: string) {
    super({ code: "usage", message, advice: "Add --help to the command to see its arguments and options." });
    this.name = "UsageFailure";
  }
}

/** Any thrown value as a failure; what we did not foresee keeps its message and is called `internal`. */
export function failureOf(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new Failure(
    { code: "internal", message, advice: "This is a bug of the command line; please report it with the command." },
    { cause: thrown },
  );
}

export function exitCodeOf(failure: Failure): number {
  return failure instanceof UsageFailure ? 2 : 1;
}

/** The failure for people: the sentence first, then what helps. */
export function failureText({ parts }: Failure): string {
  // A message of several lines lists its issues itself.
  const issues = parts.message.includes("\n") ? [] : issueLines(parts.details?.issues);
  const lines = [`error: ${parts.code}: ${parts.message}`, ...issues, `  ${parts.advice}`];
  if (parts.correlationId != null) lines.push(`  correlation id: ${parts.correlationId}`);
  return `${lines.join("\n")}\n`;
}

/** The failure for programs, one line. */
export function failureJson({ parts }: Failure): string {
  const { code, message, advice, correlationId = null, details = {} } = parts;
  return `${JSON.stringify({ error: { ...details, code, message, advice, correlation_id: correlationId } })}\n`;
}

function issueLines(issues: unknown): string[] {
  if (!Array.isArray(issues)) return [];
  return issues.map((issue: unknown) => {
    const { path, message }: { path?: unknown; message?: unknown } = Object(issue);
    return typeof message !== "string" ? `  - ${JSON.stringify(issue)}` : `  - ${path ? `${path}: ` : ""}${message}`;
  });
}
