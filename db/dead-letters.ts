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
  // The column holds JSON: what has no JSON form is kept as the text it has.
  await db.insert(deadLetters).values({ id: uuidv7(), tenant, queue, body: body ?? null, reason, createdAt: now });
}
