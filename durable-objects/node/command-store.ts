import { z } from "zod";
import { canonicalJson } from "../../domain/canonical-json.ts";
import { type ErrorCode, isErrorCode } from "../../domain/errors.ts";
import {
  COMMAND_STATES,
  COMMAND_TYPES,
  type CommandRequest,
  type CommandView,
  withoutSealed,
} from "../../domain/node/command.ts";
import type { CommandQueue } from "../../domain/node/command-delivery.ts";
import type { CommandRecord } from "../../domain/node/command-lifecycle.ts";
import type { EpochMs, SagaWait } from "../../domain/node/node.ts";
import { assertSize } from "../shared/limits.ts";
import { jsonColumn, sagaWaitSchema } from "./columns.ts";
import { parsePayload } from "./command-frame.ts";

/** A command's row without its payload, which only a delivery needs. */
export interface StoredCommand extends CommandRecord {
  readonly position: number;
  readonly generation: number;
  readonly requestedBy: string;
  readonly notify: SagaWait | null;
}

const COLUMNS =
  "position, command_id, generation, type, requested_by, notify, state, cancel_requested, stalled, stalled_reports," +
  " progress, created_at, expires_at, sent_at, delivered_at, acknowledged_at, ended_at, code, message, metadata";

const progressSchema = z.object({
  step: z.string(),
  stepIndex: z.number(),
  stepCount: z.number(),
  done: z.number(),
  total: z.number(),
  at: z.number(),
});

const commandRow = z
  .object({
    position: z.number(),
    command_id: z.string(),
    generation: z.number(),
    type: z.enum(Object.keys(COMMAND_TYPES)).refine(isCommandType),
    requested_by: z.string(),
    notify: jsonColumn(sagaWaitSchema).nullable(),
    state: z.enum(COMMAND_STATES),
    cancel_requested: z.number(),
    stalled: z.number(),
    stalled_reports: z.number(),
    progress: jsonColumn(progressSchema).nullable(),
    created_at: z.number(),
    expires_at: z.number(),
    sent_at: z.number().nullable(),
    delivered_at: z.number().nullable(),
    acknowledged_at: z.number().nullable(),
    ended_at: z.number().nullable(),
    code: z.custom<ErrorCode>(isErrorCode).nullable(),
    message: z.string().nullable(),
    metadata: jsonColumn(z.record(z.string(), z.string())),
  })
  .transform(
    (row): StoredCommand => ({
      position: row.position,
      commandId: row.command_id,
      generation: row.generation,
      type: row.type,
      requestedBy: row.requested_by,
      notify: row.notify,
      state: row.state,
      cancelRequested: row.cancel_requested === 1,
      stalled: row.stalled === 1,
      stalledReports: row.stalled_reports,
      progress: row.progress,
      createdAt: row.created_at,
      expiresAt: row.expires_at,
      sentAt: row.sent_at,
      deliveredAt: row.delivered_at,
      acknowledgedAt: row.acknowledged_at,
      endedAt: row.ended_at,
      code: row.code,
      message: row.message,
      metadata: row.metadata,
    }),
  );

const LIVE = "ended_at IS NULL AND state IN ('sent', 'acknowledged', 'running')";
const QUEUED = "ended_at IS NULL AND state = 'queued'";

/** Rows of commands. The rules that move them are domain/node/command-lifecycle.ts. */
export class CommandStore {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  insert(request: CommandRequest, generation: number, now: EpochMs): void {
    this.#sql.exec(
      "INSERT INTO commands (command_id, idempotency_key, generation, type, payload, requested_by, notify, state," +
        " created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, 'queued', ?, ?)",
      request.commandId,
      request.idempotencyKey,
      generation,
      request.payload.type,
      assertSize("row", canonicalJson(request.payload)),
      request.requestedBy,
      request.notify === null ? null : JSON.stringify(request.notify),
      now,
      now + request.ttlMs,
    );
  }

  find(commandId: string): StoredCommand | null {
    return this.#select("command_id = ?", commandId)[0] ?? null;
  }

  /** An earlier command with this id or this key, and whether it asked for the same. */
  findEarlier(request: CommandRequest): { readonly command: StoredCommand; readonly isSame: boolean } | null {
    const command = this.#select("idempotency_key = ? OR command_id = ?", request.idempotencyKey, request.commandId)[0];
    if (command === undefined) return null;
    const row = this.#sql
      .exec<{ payload: string; idempotency_key: string }>(
        "SELECT payload, idempotency_key FROM commands WHERE position = ?",
        command.position,
      )
      .one();
    const [asked, stored] = [request.payload, parsePayload(row.payload)].map(withoutSealed).map(canonicalJson);
    return { command, isSame: asked === stored && row.idempotency_key === request.idempotencyKey };
  }

  payload(commandId: string): string {
    return this.#sql.exec<{ payload: string }>("SELECT payload FROM commands WHERE command_id = ?", commandId).one()
      .payload;
  }

  /** Nothing that was sealed for the agent outlives its command. */
  wipeSealed({ commandId, position }: StoredCommand): void {
    const wiped = canonicalJson(withoutSealed(parsePayload(this.payload(commandId))));
    this.#sql.exec("UPDATE commands SET payload = ? WHERE position = ?", wiped, position);
  }

  save(command: StoredCommand): void {
    this.#sql.exec(
      "UPDATE commands SET notify = ?, state = ?, cancel_requested = ?, stalled = ?, stalled_reports = ?, progress = ?," +
        " sent_at = ?, delivered_at = ?, acknowledged_at = ?, ended_at = ?, code = ?, message = ?, metadata = ?" +
        " WHERE position = ?",
      command.notify === null ? null : JSON.stringify(command.notify),
      command.state,
      command.cancelRequested ? 1 : 0,
      command.stalled ? 1 : 0,
      command.stalledReports,
      command.progress === null ? null : JSON.stringify(command.progress),
      command.sentAt,
      command.deliveredAt,
      command.acknowledgedAt,
      command.endedAt,
      command.code,
      command.message,
      assertSize("row", JSON.stringify(command.metadata)),
      command.position,
    );
  }

  live(): readonly StoredCommand[] {
    return this.#select(`${LIVE} ORDER BY position`);
  }

  queue(generation: number): CommandQueue {
    const queued = `${QUEUED} AND generation = ?`;
    return {
      live: this.#select(`${LIVE} AND generation = ? ORDER BY position`, generation),
      head: this.#select(`${queued} ORDER BY position LIMIT 1`, generation)[0] ?? null,
      stop: this.#select(`${queued} AND type = 'STOP' ORDER BY position LIMIT 1`, generation)[0] ?? null,
    };
  }

  /** Everything that has not ended, in order. */
  open(): readonly StoredCommand[] {
    return this.#select("ended_at IS NULL ORDER BY position");
  }

  expired(now: EpochMs): readonly StoredCommand[] {
    return this.#select(`${QUEUED} AND expires_at <= ? ORDER BY position`, now);
  }

  /** When the next queued command runs out of time; null when none is queued. */
  nextExpiry(): EpochMs | null {
    const query = `SELECT min(expires_at) AS at FROM commands WHERE ${QUEUED}`;
    return this.#sql.exec<{ at: number | null }>(query).one().at;
  }

  page(limit: number, before: number | null): readonly StoredCommand[] {
    const from = before ?? Number.MAX_SAFE_INTEGER;
    return this.#select("position < ? ORDER BY position DESC LIMIT ?", from, limit);
  }

  #select(where: string, ...bindings: readonly (string | number)[]): readonly StoredCommand[] {
    const rows = this.#sql.exec(`SELECT ${COLUMNS} FROM commands WHERE ${where}`, ...bindings).toArray();
    return rows.map((row) => commandRow.parse(row));
  }
}

export function toCommandView(command: StoredCommand): CommandView {
  const { position, generation, notify, stalledReports, deliveredAt, ...view } = command;
  return view;
}

function isCommandType(type: string): type is keyof typeof COMMAND_TYPES {
  return Object.hasOwn(COMMAND_TYPES, type);
}
