import type { ErrorCode } from "../errors.ts";

/** Milliseconds since the epoch. */
export type EpochMs = number;

export const NODE_STATES = [
  "provisioning",
  "syncing",
  "healthy",
  "degraded",
  "down",
  "maintenance",
  "terminating",
  "terminated",
  "failed",
] as const;
export type NodeState = (typeof NODE_STATES)[number];

export const APPLICATION_HEALTHS = ["unknown", "ok", "degraded", "critical"] as const;
export type ApplicationHealth = (typeof APPLICATION_HEALTHS)[number];

export const SYNC_STATUSES = ["unknown", "syncing", "synced", "stalled"] as const;
export type SyncStatus = (typeof SYNC_STATUSES)[number];

/** Who or what moved a node; stored with every event. */
export const TRANSITION_TRIGGERS = [
  "provision_saga",
  "terminate_saga",
  "compensation",
  "heartbeat",
  "evaluation",
  "agent_status",
  "operator",
  "migrate_saga",
  "upgrade_saga",
  "maintenance_sweep",
] as const;
export type TransitionTrigger = (typeof TRANSITION_TRIGGERS)[number];

export type InstallationStatus = "active" | "candidate" | "revoked";

/** Facts that a node is born with; they never change. */
export interface NodeBirth {
  readonly nodeId: string;
  readonly tenant: string;
  readonly subscriptionId: string;
  readonly userId: string | null;
  readonly chain: string;
  readonly nodeType: string;
  /** The pushed version of the chain's files, `sha256:` and hex. */
  readonly chainContentHash: string;
  readonly provider: string;
  readonly region: string;
  readonly createdAt: EpochMs;
}

/** The part of a node that is copied to Postgres, guarded by (incarnation, stateVersion). */
export interface NodeProjection {
  readonly nodeId: string;
  /** Epoch milliseconds of the object's creation; a later incarnation always wins. */
  readonly incarnation: number;
  readonly stateVersion: number;
  readonly state: NodeState;
  readonly applicationHealth: ApplicationHealth;
  readonly syncStatus: SyncStatus;
  readonly stateSince: EpochMs;
  /** The last beat before the node went down; null while it is not down. */
  readonly downSince: EpochMs | null;
  readonly endpoints: Readonly<Record<string, string>>;
  /** When the object expects to act next; null when it has nothing to wait for. The sweep pokes the overdue. */
  readonly nextDue: EpochMs | null;
}

export interface InstallationView {
  readonly installationId: string | null;
  readonly generation: number;
  readonly status: InstallationStatus;
  readonly sessionEpoch: number;
  readonly connected: boolean;
  readonly lastBeatAt: EpochMs | null;
  readonly agentVersion: string | null;
  readonly enrolledAt: EpochMs | null;
  /** The installation's public keys, 64 hex digits each: Ed25519 for its proofs, X25519 for what is sealed to it. */
  readonly signingKey: string | null;
  readonly sealingKey: string | null;
}

export interface NodeView extends NodeProjection {
  readonly birth: NodeBirth;
  readonly installations: readonly InstallationView[];
}

/** One entry of a node's outbox, read by the health-events consumer in order of position. */
export interface NodeEvent {
  readonly eventId: string;
  readonly position: number;
  readonly occurredAt: EpochMs;
  readonly body: NodeEventBody;
}

export type NodeEventBody =
  | {
      readonly kind: "state_changed";
      readonly from: NodeState | null;
      readonly to: NodeState;
      readonly trigger: TransitionTrigger;
      readonly forced: boolean;
      /** Dated back where the rule says so: `down` starts at the last beat. */
      readonly effectiveAt: EpochMs;
      readonly reason: string | null;
      /** Who forced it; only forced transitions have one. */
      readonly actor?: string;
    }
  | {
      readonly kind: "dimension_changed";
      readonly dimension: "application_health" | "sync_status";
      readonly from: string;
      readonly to: string;
      readonly trigger: TransitionTrigger;
      readonly reason: string | null;
    }
  | { readonly kind: "listening_gap"; readonly from: EpochMs; readonly to: EpochMs }
  | {
      readonly kind: "agent_connected";
      readonly installationId: string;
      readonly generation: number;
      readonly sessionEpoch: number;
    }
  | { readonly kind: "agent_disconnected"; readonly installationId: string; readonly lastBeatAt: EpochMs | null }
  | { readonly kind: "agent_refused"; readonly code: ErrorCode; readonly message: string }
  | {
      readonly kind: "agent_enrolled";
      readonly installationId: string;
      readonly generation: number;
      /** Ed25519, 64 hex digits. */
      readonly signingKey: string;
    }
  /** The agent met something between it and us that altered what passes. */
  | {
      readonly kind: "tampering_reported";
      readonly code: ErrorCode;
      readonly message: string;
      readonly transport: string;
    }
  | {
      readonly kind: "command_changed";
      readonly commandId: string;
      readonly type: string;
      readonly state: string;
      readonly code: ErrorCode | null;
    }
  | { readonly kind: "endpoints_changed"; readonly endpoints: Readonly<Record<string, string>> };

/** Where a saga waits: the object sends this event to that instance until the engine has taken it. */
export interface SagaWait {
  readonly workflow: "provision-node" | "terminate-node" | "reenroll-node";
  readonly instanceId: string;
  readonly eventType: string;
}
