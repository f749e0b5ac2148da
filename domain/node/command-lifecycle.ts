import type { ErrorCode } from "../errors.ts";
import type { CommandProgressView, CommandState, CommandType } from "./command.ts";
import type { EpochMs } from "./node.ts";

/** What the rules know of a command. */
export interface CommandRecord {
  readonly commandId: string;
  readonly type: CommandType;
  readonly state: CommandState;
  readonly cancelRequested: boolean;
  readonly stalled: boolean;
  /** Progress reports in a row that said "stalled". */
  readonly stalledReports: number;
  readonly progress: CommandProgressView | null;
  readonly createdAt: EpochMs;
  readonly expiresAt: EpochMs;
  /** First delivery. */
  readonly sentAt: EpochMs | null;
  /** Latest delivery. */
  readonly deliveredAt: EpochMs | null;
  readonly acknowledgedAt: EpochMs | null;
  readonly endedAt: EpochMs | null;
  readonly code: ErrorCode | null;
  readonly message: string | null;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface CommandSettings {
  readonly ackWaitMs: number;
  readonly graceMs: number;
  readonly objectStallReports: number;
}

export type FailureKind = "failed" | "interrupted" | "expired" | "cancelled" | "refused";

export type CommandSignal =
  | { readonly kind: "delivered" }
  | { readonly kind: "acknowledged" }
  | {
      readonly kind: "progressed";
      readonly progress: Omit<CommandProgressView, "at">;
      readonly stalled: boolean;
    }
  | { readonly kind: "completed"; readonly metadata: Readonly<Record<string, string>> }
  | {
      readonly kind: "failed";
      readonly failure: FailureKind;
      readonly code: ErrorCode | null;
      readonly message: string;
    }
  | { readonly kind: "cancel"; readonly message: string }
  /** A STOP, or the node's end, takes its place: what was not acknowledged ends now. */
  | { readonly kind: "superseded"; readonly message: string }
  /** The agent no longer reports it as running. */
  | { readonly kind: "lost"; readonly message: string }
  | { readonly kind: "time_passed" };

const ENDED: ReadonlySet<CommandState> = new Set(["completed", "failed", "interrupted", "cancelled", "expired"]);

export function isEnded(state: CommandState): boolean {
  return ENDED.has(state);
}

/** Delivered and not ended: the agent may have it in hand. */
export function isLive(state: CommandState): boolean {
  return state === "sent" || state === "acknowledged" || state === "running";
}

/** Moves a command by one signal. A command that has ended never changes; what changes nothing returns the same object. */
export function advance(
  command: CommandRecord,
  signal: CommandSignal,
  settings: CommandSettings,
  now: EpochMs,
): CommandRecord {
  if (isEnded(command.state)) return command;
  switch (signal.kind) {
    case "delivered":
      return delivered(command, now);
    case "acknowledged":
      return acknowledged(command, now);
    case "progressed":
      return progressed(command, signal, settings, now);
    case "completed":
      return completed(command, signal.metadata, now);
    case "failed":
      return failed(command, signal, now);
    case "cancel":
      return cancelled(command, signal.message, now);
    case "superseded":
      return superseded(command, signal.message, now);
    case "lost":
      if (command.state !== "acknowledged" && command.state !== "running") return command;
      return end(command, "failed", "command_lost", signal.message, now);
    case "time_passed":
      return timePassed(command, settings, now);
  }
}

function delivered(command: CommandRecord, now: EpochMs): CommandRecord {
  if (command.state !== "queued") return { ...command, deliveredAt: now };
  if (now >= command.expiresAt) return expire(command, now);
  return { ...command, state: "sent", sentAt: now, deliveredAt: now };
}

function acknowledged(command: CommandRecord, now: EpochMs): CommandRecord {
  if (command.state !== "sent") return command;
  return { ...command, state: "acknowledged", acknowledgedAt: now };
}

function progressed(
  command: CommandRecord,
  signal: Extract<CommandSignal, { kind: "progressed" }>,
  settings: CommandSettings,
  now: EpochMs,
): CommandRecord {
  if (command.state === "queued") return command;
  const stalledReports = signal.stalled ? command.stalledReports + 1 : 0;
  const moved: CommandRecord = {
    ...command,
    state: "running",
    acknowledgedAt: command.acknowledgedAt ?? now,
    progress: { ...signal.progress, at: now },
    stalled: signal.stalled,
    stalledReports,
  };
  if (stalledReports < settings.objectStallReports) return moved;
  const message = `No progress in step "${signal.progress.step}" over ${stalledReports} reports.`;
  return end(moved, "failed", "command_stalled", message, now);
}

function completed(command: CommandRecord, metadata: Readonly<Record<string, string>>, now: EpochMs): CommandRecord {
  if (command.state === "queued") return command;
  return { ...end(command, "completed", null, null, now), metadata };
}

function failed(
  command: CommandRecord,
  signal: Extract<CommandSignal, { kind: "failed" }>,
  now: EpochMs,
): CommandRecord {
  if (command.state === "queued") return command;
  switch (signal.failure) {
    case "failed":
      return end(command, "failed", signal.code ?? "command_failed", signal.message, now);
    case "refused":
      return end(command, "failed", signal.code ?? "command_refused", signal.message, now);
    case "interrupted":
      return end(command, "interrupted", "command_interrupted", signal.message, now);
    case "expired":
      return end(command, "expired", "command_expired", signal.message, now);
    case "cancelled":
      return end(command, "cancelled", "command_cancelled", signal.message, now);
  }
}

function cancelled(command: CommandRecord, message: string, now: EpochMs): CommandRecord {
  if (command.state === "queued") return end(command, "cancelled", "command_cancelled", message, now);
  return command.cancelRequested ? command : { ...command, cancelRequested: true };
}

function superseded(command: CommandRecord, message: string, now: EpochMs): CommandRecord {
  if (command.state !== "queued" && command.state !== "sent") return cancelled(command, message, now);
  return end(command, "cancelled", "command_cancelled", message, now);
}

function timePassed(command: CommandRecord, settings: CommandSettings, now: EpochMs): CommandRecord {
  if (command.state === "queued" && now >= command.expiresAt) return expire(command, now);
  if (command.state === "sent" && now >= command.expiresAt + settings.graceMs) return expire(command, now);
  return command;
}

function expire(command: CommandRecord, now: EpochMs): CommandRecord {
  if (command.cancelRequested) {
    return end(command, "cancelled", "command_cancelled", "Cancelled before the agent confirmed it.", now);
  }
  return end(command, "expired", "command_expired", "Not started within its time to live.", now);
}

function end(
  command: CommandRecord,
  state: CommandState,
  code: ErrorCode | null,
  message: string | null,
  now: EpochMs,
): CommandRecord {
  return { ...command, state, code, message, endedAt: now };
}
