import { create, fromBinary } from "@bufbuild/protobuf";
import { DEFAULTS } from "../../domain/defaults.ts";
import { type ErrorCode, isErrorCode, OrreryError } from "../../domain/errors.ts";
import type { CommandProgressView } from "../../domain/node/command.ts";
import type { FailureKind } from "../../domain/node/command-lifecycle.ts";
import { endpointsOf } from "../../domain/node/endpoints.ts";
import type { EpochMs, SyncStatus } from "../../domain/node/node.ts";
import {
  type AgentMessage,
  AgentMessageSchema,
  type ControlMessage,
  ControlMessageSchema,
  FailureKind as ProtoFailureKind,
  SyncStatus as ProtoSyncStatus,
  type Status,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";

export interface AgentStatus {
  readonly syncStatus: SyncStatus;
  readonly endpoints: Readonly<Record<string, string>>;
  readonly detail: string;
}

/** An agent's frame in our own words, with every text cut to size and free of what Postgres cannot store. */
export type AgentFrame =
  | {
      readonly kind: "hello";
      readonly protocolVersion: number;
      readonly installationId: string;
      readonly generation: number;
      readonly sessionEpoch: number;
      readonly agentVersion: string;
      readonly runningCommandIds: readonly string[];
      readonly status: AgentStatus | null;
    }
  | { readonly kind: "beat"; readonly runningCommandIds: readonly string[] }
  | { readonly kind: "status"; readonly status: AgentStatus }
  | { readonly kind: "acknowledged"; readonly commandId: string }
  | {
      readonly kind: "progressed";
      readonly commandId: string;
      readonly progress: Omit<CommandProgressView, "at">;
      readonly stalled: boolean;
    }
  | {
      readonly kind: "completed";
      readonly commandId: string;
      readonly metadata: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: "failed";
      readonly commandId: string;
      readonly failure: FailureKind;
      readonly code: ErrorCode | null;
      readonly message: string;
    }
  /** A newer protocol's message: proof of life, nothing more. */
  | { readonly kind: "unknown" };

const MAX = { id: 100, word: 200, sentence: 2_000, entries: 64, running: 32 } as const;

/**
 * @throws malformed_frame, frame_too_large
 */
export function decodeFrame(data: ArrayBuffer | string): AgentFrame {
  if (typeof data === "string") throw malformed("a text frame other than ping");
  if (data.byteLength > DEFAULTS.agent.maxFrameBytes) {
    const message = `A frame of ${data.byteLength} bytes is larger than ${DEFAULTS.agent.maxFrameBytes}.`;
    throw new OrreryError("frame_too_large", message);
  }
  return toFrame(parse(new Uint8Array(data)));
}

function parse(bytes: Uint8Array): AgentMessage {
  try {
    return fromBinary(AgentMessageSchema, bytes);
  } catch (cause) {
    throw new OrreryError("malformed_frame", "The frame is not a message of the agent's protocol.", {}, { cause });
  }
}

function toFrame({ body }: AgentMessage): AgentFrame {
  switch (body.case) {
    case "hello":
      return {
        kind: "hello",
        protocolVersion: body.value.protocolVersion,
        installationId: identifier("installation_id", body.value.installationId),
        generation: body.value.generation,
        sessionEpoch: exact("session_epoch", body.value.sessionEpoch),
        agentVersion: text(body.value.agentVersion, MAX.word),
        runningCommandIds: running(body.value.runningCommandIds),
        status: body.value.status === undefined ? null : toStatus(body.value.status),
      };
    case "beat":
      return { kind: "beat", runningCommandIds: running(body.value.runningCommandIds) };
    case "status":
      return { kind: "status", status: toStatus(body.value) };
    case "commandAcknowledged":
      return { kind: "acknowledged", commandId: identifier("command_id", body.value.commandId) };
    case "commandProgress":
      return {
        kind: "progressed",
        commandId: identifier("command_id", body.value.commandId),
        progress: {
          step: text(body.value.step, MAX.word),
          stepIndex: body.value.stepIndex,
          stepCount: body.value.stepCount,
          done: exact("done", body.value.done),
          total: exact("total", body.value.total),
        },
        stalled: body.value.stalled,
      };
    case "commandCompleted":
      return {
        kind: "completed",
        commandId: identifier("command_id", body.value.commandId),
        metadata: texts("metadata", body.value.metadata),
      };
    case "commandFailed":
      return {
        kind: "failed",
        commandId: identifier("command_id", body.value.commandId),
        failure: failureKind(body.value.kind),
        code: isErrorCode(body.value.code) ? body.value.code : null,
        message: text(body.value.message, MAX.sentence),
      };
    case undefined:
      return { kind: "unknown" };
  }
}

function toStatus(status: Status): AgentStatus {
  return {
    syncStatus: syncStatus(status.syncStatus),
    endpoints: endpointsOf(texts("endpoints", status.endpoints)),
    detail: text(status.detail, MAX.sentence),
  };
}

function syncStatus(status: ProtoSyncStatus): SyncStatus {
  if (status === ProtoSyncStatus.SYNCED) return "synced";
  if (status === ProtoSyncStatus.SYNCING) return "syncing";
  return status === ProtoSyncStatus.STALLED ? "stalled" : "unknown";
}

/** A kind of a newer protocol is still a failure. */
function failureKind(kind: ProtoFailureKind): FailureKind {
  if (kind === ProtoFailureKind.INTERRUPTED) return "interrupted";
  if (kind === ProtoFailureKind.EXPIRED) return "expired";
  if (kind === ProtoFailureKind.CANCELLED) return "cancelled";
  return kind === ProtoFailureKind.REFUSED ? "refused" : "failed";
}

function running(ids: readonly string[]): readonly string[] {
  if (ids.length > MAX.running) throw malformed(`more than ${MAX.running} running_command_ids`);
  return ids.map((id) => identifier("running_command_ids", id));
}

function identifier(field: string, value: string): string {
  if (/^[A-Za-z0-9._:-]+$/.test(value) && value.length <= MAX.id) return value;
  throw malformed(`${field} is not an id`);
}

function exact(field: string, value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw malformed(`${field} is too large`);
  return Number(value);
}

function texts(field: string, values: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const entries = Object.entries(values);
  if (entries.length > MAX.entries) throw malformed(`${field} has more than ${MAX.entries} entries`);
  return Object.fromEntries(entries.map(([key, value]) => [text(key, MAX.word), text(value, MAX.sentence)]));
}

function text(value: string, maxLength: number): string {
  return value.replaceAll("\0", "").slice(0, maxLength).toWellFormed();
}

function malformed(what: string): OrreryError {
  return new OrreryError("malformed_frame", `The frame is not valid: ${what}.`);
}

export function welcomeFrame(now: EpochMs): ControlMessage {
  return create(ControlMessageSchema, {
    body: {
      case: "welcome",
      value: {
        protocolVersion: DEFAULTS.agent.protocolVersion,
        beatIntervalMs: DEFAULTS.heartbeat.beatMs,
        serverTimeMs: BigInt(now),
      },
    },
  });
}

export function goodbyeFrame(code: ErrorCode, message: string, reconnectAfterMs: number | null): ControlMessage {
  const reconnect = reconnectAfterMs === null ? {} : { reconnectAfterMs };
  return create(ControlMessageSchema, { body: { case: "goodbye", value: { code, message, ...reconnect } } });
}

export function cancelFrame(commandId: string): ControlMessage {
  return create(ControlMessageSchema, { body: { case: "cancelCommand", value: { commandId } } });
}
