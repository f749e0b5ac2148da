import { nextAlarm, type Timer, timerBackoffMs } from "../../domain/alarm/next-alarm.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import type { EpochMs } from "../../domain/node/node.ts";
import { now } from "./clock.ts";
import { assertSize } from "./limits.ts";
import { errorText, log } from "./log.ts";

/** Table of the alarm clock; part of the schema of every object that has one. */
export const TIMERS_TABLE = `CREATE TABLE timers (
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  due_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  payload TEXT,
  PRIMARY KEY (kind, key)
) WITHOUT ROWID`;

/** What a timer does when it rings. */
export interface TimerHandler {
  /** `stored`: a row that `schedule` wrote. `derived`: follows from what the object knows and costs no row. */
  readonly source: "stored" | "derived";
  /** Answers when to come back, null when it is done; a thrown error means: again after the backoff. */
  run(timer: RingingTimer): EpochMs | null | Promise<EpochMs | null>;
}

export interface RingingTimer {
  readonly key: string;
  readonly payload: string | null;
  /** Failures so far. */
  readonly attempts: number;
}

interface StoredTimer<Kind extends string> extends Timer<Kind> {
  readonly attempts: number;
  readonly payload: string | null;
  readonly hasRow: boolean;
}

type TimerRow = { kind: string; key: string; due_at: number; attempts: number; payload: string | null };

/** How many timers ring together, and how long one may take before it counts as failed. */
const BATCH = 50;
const TIMEOUT_MS = 30_000;

/**
 * One alarm for many timers. The alarm is only ever set earlier, never moved later (each write is a paid row): an alarm
 * that rings too early finds nothing due and sets the next. A timer that fails waits by its own backoff in a row of its
 * own and holds up no other.
 */
export class AlarmClock<Kind extends string> {
  readonly #storage: DurableObjectStorage;
  readonly #handlers: Readonly<Record<Kind, TimerHandler>>;
  readonly #derived: () => readonly Timer<Kind>[];
  #ringing = false;

  constructor(
    storage: DurableObjectStorage,
    handlers: Readonly<Record<Kind, TimerHandler>>,
    derived: () => readonly Timer<Kind>[],
  ) {
    this.#storage = storage;
    this.#handlers = handlers;
    this.#derived = derived;
  }

  /** Stores a timer, inside the caller's transaction; the same kind and key replaces. Call `arm` after the commit. */
  schedule(kind: Kind, key: string, dueAt: EpochMs, payload: string | null): void {
    this.#write({ kind, key, dueAt, payload, attempts: 0 });
  }

  /** Every timer there is: a derived one that failed is held back by its row. */
  timers(): readonly StoredTimer<Kind>[] {
    const rows = this.#rows();
    const held = new Map(rows.map((timer) => [`${timer.kind}/${timer.key}`, timer]));
    const derived = this.#derived().map((timer) => {
      const row = held.get(`${timer.kind}/${timer.key}`);
      return row ?? { ...timer, attempts: 0, payload: null, hasRow: false };
    });
    return [...rows.filter((timer) => this.#handlers[timer.kind].source === "stored"), ...derived];
  }

  /** Sets the alarm if there is none at all; on an alarm's own wake the past-due time still counts as one. */
  async armIfNone(): Promise<void> {
    if ((await this.#storage.getAlarm()) === null) await this.#arm();
  }

  /** Makes sure that the alarm rings in time for every timer. While timers ring this is left to the end of the run. */
  async arm(): Promise<void> {
    if (!this.#ringing) await this.#arm();
  }

  /** Runs what is due and arms the alarm for the rest, whatever happened. */
  async ring(): Promise<void> {
    if (this.#ringing) return;
    this.#ringing = true;
    try {
      const due = this.timers().filter((timer) => timer.dueAt <= now());
      await Promise.allSettled(due.slice(0, BATCH).map((timer) => this.#run(timer)));
      this.#dropStale();
    } finally {
      this.#ringing = false;
      await this.#arm();
    }
  }

  async #arm(): Promise<void> {
    const time = now();
    const next = nextAlarm(this.timers(), time);
    if (next === null) return;
    const current = await this.#storage.getAlarm();
    const isLost = current !== null && current < time - DEFAULTS.node.overdueMs;
    if (current === null || isLost || next < current) await this.#storage.setAlarm(next);
  }

  async #run(timer: StoredTimer<Kind>): Promise<void> {
    try {
      const again = await withTimeout(this.#handlers[timer.kind].run(timer));
      if (timer.hasRow) this.#forget(timer);
      if (again !== null) this.#write({ ...timer, dueAt: again, attempts: 0 });
      else if (this.#isStillDue(timer)) throw new Error("it is still due after it ran");
    } catch (thrown) {
      const attempts = timer.attempts + 1;
      log("warn", "timer failed", { kind: timer.kind, key: timer.key, attempts, error: errorText(thrown) });
      this.#write({ ...timer, attempts, dueAt: now() + timerBackoffMs(attempts) });
    }
  }

  /** A derived timer that has run and follows again at once would ring for ever. */
  #isStillDue(timer: StoredTimer<Kind>): boolean {
    if (this.#handlers[timer.kind].source === "stored") return false;
    return this.#derived().some(({ kind, key, dueAt }) => kind === timer.kind && key === timer.key && dueAt <= now());
  }

  /** Leaves alone what was scheduled anew while it ran. */
  #forget({ kind, key, dueAt }: Timer<Kind>): void {
    this.#storage.sql.exec("DELETE FROM timers WHERE kind = ? AND key = ? AND due_at = ?", kind, key, dueAt);
  }

  /** Rows that held back derived timers which no longer follow from anything. */
  #dropStale(): void {
    const holding = this.#rows().filter(({ kind }) => this.#handlers[kind].source === "derived");
    if (holding.length === 0) return;
    const known = new Set(this.#derived().map((timer) => `${timer.kind}/${timer.key}`));
    for (const timer of holding) {
      if (!known.has(`${timer.kind}/${timer.key}`)) this.#forget(timer);
    }
  }

  #write(timer: Timer<Kind> & { readonly attempts: number; readonly payload: string | null }): void {
    this.#storage.sql.exec(
      "INSERT INTO timers (kind, key, due_at, attempts, payload) VALUES (?, ?, ?, ?, ?)" +
        " ON CONFLICT (kind, key) DO UPDATE SET due_at = excluded.due_at, attempts = excluded.attempts, payload = excluded.payload",
      timer.kind,
      timer.key,
      timer.dueAt,
      timer.attempts,
      timer.payload === null ? null : assertSize("row", timer.payload),
    );
  }

  #rows(): readonly StoredTimer<Kind>[] {
    const rows = this.#storage.sql.exec<TimerRow>("SELECT * FROM timers ORDER BY due_at LIMIT ?", 4 * BATCH).toArray();
    return rows.flatMap((row) => {
      const { kind } = row;
      if (!this.#isKind(kind)) return [];
      return [{ kind, key: row.key, dueAt: row.due_at, attempts: row.attempts, payload: row.payload, hasRow: true }];
    });
  }

  #isKind(kind: string): kind is Kind {
    return Object.hasOwn(this.#handlers, kind);
  }
}

/** An outside call that hangs must not hold up the alarm. */
async function withTimeout(work: EpochMs | null | Promise<EpochMs | null>): Promise<EpochMs | null> {
  if (!(work instanceof Promise)) return work;
  const { promise: expiry, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`it took longer than ${TIMEOUT_MS} ms`)), TIMEOUT_MS);
  try {
    return await Promise.race([work, expiry]);
  } finally {
    clearTimeout(timer);
  }
}
