import { z } from "zod";
import {
  APPLICATION_HEALTHS,
  type EpochMs,
  type InstallationStatus,
  NODE_STATES,
  type NodeBirth,
  type SagaWait,
  SYNC_STATUSES,
} from "../../domain/node/node.ts";
import type { NodeCondition } from "../../domain/node/transition.ts";
import { assertSize } from "../shared/limits.ts";
import { jsonColumn, sagaWaitSchema } from "./columns.ts";

/** The node's row: what it was born with and how it is now. */
export interface NodeRecord extends NodeCondition {
  readonly birth: NodeBirth;
  readonly incarnation: number;
  readonly stateVersion: number;
  readonly endpoints: Readonly<Record<string, string>>;
  readonly listeningSince: EpochMs;
  /** Only this row is left: the node has ended and its outbox has been read. */
  readonly storageRemoved: boolean;
}

export interface InstallationRecord {
  readonly generation: number;
  readonly status: InstallationStatus;
  readonly installationId: string | null;
  readonly sessionEpoch: number;
  readonly agentVersion: string | null;
  /** When the present session began; null while there is none. */
  readonly connectedAt: EpochMs | null;
  /** The newest beat when a session last ended; newer ones are on the socket. */
  readonly lastBeatAt: EpochMs | null;
  /** Its public keys, 64 hex digits each; null until it has enrolled. */
  readonly signingKey: string | null;
  readonly sealingKey: string | null;
  readonly enrolledAt: EpochMs | null;
  /** When agents were last refused in its name, by code. */
  readonly refusals: Readonly<Record<string, EpochMs>>;
  readonly readyWait: SagaWait | null;
}

const birthSchema = z.object({
  nodeId: z.string(),
  tenant: z.string(),
  subscriptionId: z.string(),
  userId: z.string().nullable(),
  chain: z.string(),
  nodeType: z.string(),
  chainContentHash: z.string(),
  provider: z.string(),
  region: z.string(),
  createdAt: z.number(),
});

const nodeRow = z
  .object({
    birth: jsonColumn(birthSchema),
    incarnation: z.number(),
    state_version: z.number(),
    state: z.enum(NODE_STATES),
    state_since: z.number(),
    application_health: z.enum(APPLICATION_HEALTHS),
    sync_status: z.enum(SYNC_STATUSES),
    down_since: z.number().nullable(),
    maintenance_from: z.enum(NODE_STATES).nullable(),
    endpoints: jsonColumn(z.record(z.string(), z.string())),
    listening_since: z.number(),
    storage_removed: z.number(),
  })
  .transform(
    (row): NodeRecord => ({
      birth: row.birth,
      incarnation: row.incarnation,
      stateVersion: row.state_version,
      state: row.state,
      stateSince: row.state_since,
      applicationHealth: row.application_health,
      syncStatus: row.sync_status,
      downSince: row.down_since,
      maintenanceFrom: row.maintenance_from,
      endpoints: row.endpoints,
      listeningSince: row.listening_since,
      storageRemoved: row.storage_removed === 1,
    }),
  );

const installationRow = z
  .object({
    generation: z.number(),
    status: z.enum(["active", "candidate", "revoked"]),
    installation_id: z.string().nullable(),
    session_epoch: z.number(),
    agent_version: z.string().nullable(),
    connected_at: z.number().nullable(),
    last_beat_at: z.number().nullable(),
    signing_key: z.string().nullable(),
    sealing_key: z.string().nullable(),
    enrolled_at: z.number().nullable(),
    refusals: jsonColumn(z.record(z.string(), z.number())),
    ready_wait: jsonColumn(sagaWaitSchema).nullable(),
  })
  .transform(
    (row): InstallationRecord => ({
      generation: row.generation,
      status: row.status,
      installationId: row.installation_id,
      sessionEpoch: row.session_epoch,
      agentVersion: row.agent_version,
      connectedAt: row.connected_at,
      lastBeatAt: row.last_beat_at,
      signingKey: row.signing_key,
      sealingKey: row.sealing_key,
      enrolledAt: row.enrolled_at,
      refusals: row.refusals,
      readyWait: row.ready_wait,
    }),
  );

/**
 * Rows of the node and its installations, read and written whole. What was read once is kept: nobody else writes them,
 * and a wake-up asks for them a dozen times.
 */
export class NodeStore {
  readonly #sql: SqlStorage;
  #node: NodeRecord | null = null;
  #installations: readonly InstallationRecord[] | null = null;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  node(): NodeRecord | null {
    this.#node ??= this.#readNode();
    return this.#node;
  }

  /** Rows are as they were before a transaction that failed, and so is what is kept of them. */
  forget(): void {
    this.#node = null;
    this.#installations = null;
  }

  saveNode(node: NodeRecord): void {
    this.#node = node;
    this.#sql.exec(
      "INSERT OR REPLACE INTO node (id, birth, incarnation, state_version, state, state_since, application_health," +
        " sync_status, down_since, maintenance_from, endpoints, listening_since, storage_removed)" +
        " VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      JSON.stringify(node.birth),
      node.incarnation,
      node.stateVersion,
      node.state,
      node.stateSince,
      node.applicationHealth,
      node.syncStatus,
      node.downSince,
      node.maintenanceFrom,
      assertSize("row", JSON.stringify(node.endpoints)),
      node.listeningSince,
      node.storageRemoved ? 1 : 0,
    );
  }

  /** In the order of their generations. */
  installations(): readonly InstallationRecord[] {
    this.#installations ??= this.#readInstallations();
    return this.#installations;
  }

  installation(generation: number): InstallationRecord | null {
    return this.installations().find((installation) => installation.generation === generation) ?? null;
  }

  activeInstallation(): InstallationRecord | null {
    return this.installations().find((installation) => installation.status === "active") ?? null;
  }

  saveInstallation(installation: InstallationRecord): void {
    this.#installations = null;
    this.#sql.exec(
      "INSERT OR REPLACE INTO installations (generation, status, installation_id, session_epoch, agent_version," +
        " connected_at, last_beat_at, signing_key, sealing_key, enrolled_at, refusals, ready_wait)" +
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      installation.generation,
      installation.status,
      installation.installationId,
      installation.sessionEpoch,
      installation.agentVersion,
      installation.connectedAt,
      installation.lastBeatAt,
      installation.signingKey,
      installation.sealingKey,
      installation.enrolledAt,
      JSON.stringify(installation.refusals),
      installation.readyWait === null ? null : JSON.stringify(installation.readyWait),
    );
  }

  /** Leaves the node's own row as a tombstone, inside the caller's transaction. */
  removeAllButNode(): void {
    this.#installations = null;
    for (const table of ["installations", "commands", "outbox", "timers"]) this.#sql.exec(`DELETE FROM ${table}`);
  }

  #readNode(): NodeRecord | null {
    const row = this.#sql.exec("SELECT * FROM node").toArray()[0];
    return row === undefined ? null : nodeRow.parse(row);
  }

  #readInstallations(): readonly InstallationRecord[] {
    const rows = this.#sql.exec("SELECT * FROM installations ORDER BY generation").toArray();
    return rows.map((row) => installationRow.parse(row));
  }
}
