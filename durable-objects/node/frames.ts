import { DEFAULTS } from "../../domain/defaults.ts";
import { type ErrorCode, isErrorCode } from "../../domain/errors.ts";
import type { CommandProgressView } from "../../domain/node/command.ts";
import type { FailureKind } from "../../domain/node/command-lifecycle.ts";
import { endpointsOf } from "../../domain/node/endpoints.ts";
import type { SyncStatus } from "../../domain/node/node.ts";
import {
  AgentBodySchema,
  OpeningSchema,
  FailureKind as ProtoFailureKind,
  SyncStatus as ProtoSyncStatus,
  type Status,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { exact, identifier, malformed, parse } from "./wire.ts";

export interface AgentStatus {
  readonly syncStatus: SyncStatus;
  readonly endpoints: Readonly<Record<string, string>>;
  readonly detail: string;
}

/** What the agent says within a session in our own words, with every text cut to size and free of what Postgres cannot store. */
export type AgentFrame =
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
  /** The answer to a Probe. */
  | { readonly kind: "alive"; readonly question: number }
  | { readonly kind: "tampering"; readonly code: ErrorCode; readonly message: string; readonly transport: string }
  /** A newer protocol's message: proof of life, nothing more. */
  | { readonly kind: "unknown" };

/** How an agent is when its session begins. */
export interface AgentOpening {
  readonly agentVersion: string;
  readonly runningCommandIds: readonly string[];
  readonly status: AgentStatus | null;
}

const MAX = { word: 200, sentence: 2_000, entries: 64, running: 32 } as const;

/** @throws malformed_frame */
export function decodeOpening(bytes: Uint8Array): AgentOpening {
  if (bytes.byteLength > DEFAULTS.agent.openingBytes) throw malformed("the Opening is too large");
  const { agentVersion, runningCommandIds, status } = parse(OpeningSchema, bytes);
  return {
    agentVersion: text(agentVersion, MAX.word),
    runningCommandIds: running(runningCommandIds),
    status: status === undefined ? null : toStatus(status),
  };
}

/**
 * Reads a sealed frame's body.
 * @throws malformed_frame
 */
export function decodeBody(bytes: Uint8Array): AgentFrame {
  const { body } = parse(AgentBodySchema, bytes);
  switch (body.case) {
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
    case "alive":
      return { kind: "alive", question: body.value.question };
    case "tampering":
      return {
        kind: "tampering",
        // A code of a newer agent is kept where it is read.
        code: isErrorCode(body.value.code) ? body.value.code : "internal",
        message: text(
          isErrorCode(body.value.code) ? body.value.message : `${body.value.code}: ${body.value.message}`,
          MAX.sentence,
        ),
        transport: text(body.value.transport, MAX.word),
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

function texts(field: string, values: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const entries = Object.entries(values);
  if (entries.length > MAX.entries) throw malformed(`${field} has more than ${MAX.entries} entries`);
  return Object.fromEntries(entries.map(([key, value]) => [text(key, MAX.word), text(value, MAX.sentence)]));
}

function text(value: string, maxLength: number): string {
  return value.replaceAll("\0", "").slice(0, maxLength).toWellFormed();
}
