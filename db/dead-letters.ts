import { sql } from "drizzle-orm";
import { uuidv7 } from "uuidv7";
import type { Executor } from "./client.ts";
import { deadLetters } from "./schema.ts";

export interface DeadLetter {
  readonly tenant: string;
  readonly queue: string;
  readonly body: unknown;
  readonly reason: string;
}

/** Parks what could not be handled, for a person to look at and replay. */
export async function insertDeadLetter(
  db: Executor,
  { tenant, queue, body, reason }: DeadLetter,
  now: Date,
): Promise<void> {
  // As text, because a JSON null is a body too, and drizzle would write it as no body at all.
  const json = JSON.stringify(storable(body)) ?? "null";
  await db
    .insert(deadLetters)
    .values({ id: uuidv7(), tenant, queue, body: sql`${json}::jsonb`, reason: text(reason), createdAt: now });
}

/** What must not be lost must not be refused either: Postgres takes neither NUL nor half of a surrogate pair. */
function storable(value: unknown): unknown {
  if (typeof value === "string") return text(value);
  if (Array.isArray(value)) return value.map(storable);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [text(key), storable(entry)]));
}

function text(value: string): string {
  return value.replaceAll("\0", "\uFFFD").toWellFormed();
}
