import type { ErrorCode } from "../errors.ts";
import type { EpochMs, SagaWait } from "./node.ts";

/** The numbers are the protocol's (proto/orrery/agent/v1). */
export const COMMAND_TYPES = {
  CONFIGURE: 1,
  START: 2,
  STOP: 3,
  RESTART: 4,
  INJECT_KEYS: 5,
  RESTORE_SNAPSHOT: 6,
  BACKUP: 7,
  CAPTURE_KEY: 8,
  UPGRADE: 9,
} as const;
export type CommandType = keyof typeof COMMAND_TYPES;

export const COMMAND_STATES = [
  "queued",
  "sent",
  "acknowledged",
  "running",
  "completed",
  "failed",
  "interrupted",
  "cancelled",
  "expired",
] as const;
export type CommandState = (typeof COMMAND_STATES)[number];

export type CommandPayload =
  | {
      readonly type: "CONFIGURE";
      readonly chain: string;
      readonly nodeType: string;
      readonly contentHash: string;
      readonly profileYaml: string;
      readonly runtimeYaml: string;
      readonly recipeYaml: string;
      readonly observationYaml: string;
      readonly values: Readonly<Record<string, string>>;
    }
  | { readonly type: "START" }
  | { readonly type: "STOP"; readonly graceMs: number }
  | { readonly type: "RESTART" }
  | {
      readonly type: "INJECT_KEYS";
      /** The DEK sealed to the installation, base64; wiped with the ciphertexts when the command has ended. */
      readonly sealedDek: string;
      /** All of the node's keys. */
      readonly keys: readonly InjectedKey[];
      /** By the DEK over all of them, base64. */
      readonly keysMac: string;
    };

/** One key of a node as it travels: under the node's DEK. Bytes are base64. */
export interface InjectedKey {
  readonly name: string;
  readonly keyType: string;
  readonly source: string;
  /** Hex; null where the type has none. */
  readonly publicKey: string | null;
  readonly nonce: string;
  readonly ciphertext: string;
  /** Inside the node's data directory. */
  readonly path: string;
  /** The account that owns the file; null means the agent's own. */
  readonly owner: string | null;
  /** Permission bits, for example 0o600. */
  readonly mode: number;
}

/**
 * The payload without what is sealed: what is left of it once the command has ended, and what makes two requests the
 * same, since sealing the same keys twice gives other bytes.
 */
export function withoutSealed(payload: CommandPayload): CommandPayload {
  if (payload.type !== "INJECT_KEYS") return payload;
  const keys = payload.keys.map((key) => ({ ...key, nonce: "", ciphertext: "" }));
  return { ...payload, sealedDek: "", keys, keysMac: "" };
}

export interface CommandRequest {
  readonly commandId: string;
  readonly payload: CommandPayload;
  readonly ttlMs: number;
  /** Unique within the node: the same key with the same payload answers the first command. */
  readonly idempotencyKey: string;
  /** Who asked: `saga:<id>` or `key:<api key id>`. */
  readonly requestedBy: string;
  /** Told once the command has ended. */
  readonly notify: SagaWait | null;
}

export interface CommandProgressView {
  readonly step: string;
  readonly stepIndex: number;
  readonly stepCount: number;
  readonly done: number;
  readonly total: number;
  readonly at: EpochMs;
}

export interface CommandView {
  readonly commandId: string;
  readonly type: CommandType;
  readonly state: CommandState;
  readonly cancelRequested: boolean;
  readonly stalled: boolean;
  readonly progress: CommandProgressView | null;
  readonly requestedBy: string;
  readonly createdAt: EpochMs;
  readonly expiresAt: EpochMs;
  readonly sentAt: EpochMs | null;
  readonly acknowledgedAt: EpochMs | null;
  readonly endedAt: EpochMs | null;
  readonly code: ErrorCode | null;
  readonly message: string | null;
  readonly metadata: Readonly<Record<string, string>>;
}
