/** One structured line for a decision that matters: level, message, the entity and what else explains it. */
export function log(
  level: "info" | "warn" | "error",
  message: string,
  fields: Readonly<Record<string, string | number | boolean | null>>,
): void {
  console[level](JSON.stringify({ level, message, ...fields }));
}

/** What a log may say of a thrown value: its message, never its stack, and never the parameters of a query. */
export function errorText(thrown: unknown): string {
  return textOf(thrown).slice(0, 500);
}

function textOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  // drizzle's own message ends with the parameters, which may be anybody's data.
  if ("query" in thrown && "params" in thrown) return `${textOf(thrown.cause)} (failed query: ${thrown.query})`;
  return isDataException(thrown) ? `Postgres refused a value (${thrown.code})` : thrown.message;
}

/** SQLSTATE class 22: Postgres repeats the value in its message. */
function isDataException(error: Error): error is Error & { readonly code: string } {
  return "code" in error && typeof error.code === "string" && /^22[0-9A-Z]{3}$/.test(error.code);
}
