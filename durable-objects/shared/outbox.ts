import { uuidv7 } from "uuidv7";
import type { EpochMs } from "../../domain/node/node.ts";
import { assertSize } from "./limits.ts";

/** Table of the outbox; positions are never used twice, also after a purge. */
export const OUTBOX_TABLE = `CREATE TABLE outbox (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id TEXT NOT NULL,
  occurred_at INTEGER NOT NULL,
  body TEXT NOT NULL
)`;

export interface OutboxEntry<Body> {
  readonly eventId: string;
  readonly position: number;
  readonly occurredAt: EpochMs;
  readonly body: Body;
}

type OutboxRow = { position: number; event_id: string; occurred_at: number; body: string };

/** Events that an object owes to its readers, written in the transaction of the change that they tell of. */
export class Outbox<Body> {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  append(body: Body, occurredAt: EpochMs): void {
    this.#sql.exec(
      "INSERT INTO outbox (event_id, occurred_at, body) VALUES (?, ?, ?)",
      uuidv7(),
      occurredAt,
      assertSize("row", JSON.stringify(body)),
    );
  }

  read(afterPosition: number, limit: number): readonly OutboxEntry<Body>[] {
    const query = "SELECT * FROM outbox WHERE position > ? ORDER BY position LIMIT ?";
    return this.#sql
      .exec<OutboxRow>(query, afterPosition, limit)
      .toArray()
      .map(toEntry<Body>);
  }

  purge(throughPosition: number): void {
    this.#sql.exec("DELETE FROM outbox WHERE position <= ?", throughPosition);
  }

  /** When the oldest unread event occurred; null when everything has been read. */
  oldestAt(): EpochMs | null {
    const query = "SELECT occurred_at FROM outbox ORDER BY position LIMIT 1";
    return this.#sql.exec<{ occurred_at: number }>(query).toArray()[0]?.occurred_at ?? null;
  }
}

/** The text is what `append` wrote, so its type is known. */
function toEntry<Body>(row: OutboxRow): OutboxEntry<Body> {
  const body: Body = JSON.parse(row.body);
  return { eventId: row.event_id, position: row.position, occurredAt: row.occurred_at, body };
}
