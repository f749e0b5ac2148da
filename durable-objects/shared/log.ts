/** One structured line for a decision that matters: level, message, the entity and what else explains it. */
export function log(
  level: "info" | "warn" | "error",
  message: string,
  fields: Readonly<Record<string, string | number | boolean | null>>,
): void {
  console[level](JSON.stringify({ level, message, ...fields }));
}

/** What a log may say of a thrown value: its message, never its stack. */
export function errorText(thrown: unknown): string {
  return (thrown instanceof Error ? thrown.message : String(thrown)).slice(0, 500);
}
