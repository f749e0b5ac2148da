import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core";

/** Postgres tables. Times are `timestamptz`; ids are UUIDv7 made by the caller unless a comment names another form. */

const instant = (name: string) => timestamp(name, { withTimezone: true, mode: "date", precision: 3 });

export const users = pgTable("users", {
  id: uuid("id").primaryKey(),
  tenant: text("tenant").notNull(),
  displayName: text("display_name").notNull(),
  createdAt: instant("created_at").notNull(),
});

/** An API key is `orr_<id>_<secret>`; only the SHA-256 of the secret is kept. */
export const apiKeys = pgTable(
  "api_keys",
  {
    id: text("id").primaryKey(),
    tenant: text("tenant").notNull(),
    /** Null for an operator's key, which sees every customer. */
    userId: uuid("user_id").references(() => users.id),
    name: text("name").notNull(),
    secretHash: text("secret_hash").notNull(),
    scopes: text("scopes").array().notNull(),
    createdAt: instant("created_at").notNull(),
    expiresAt: instant("expires_at"),
    revokedAt: instant("revoked_at"),
    lastUsedAt: instant("last_used_at"),
  },
  (table) => [index("api_keys_tenant_created_idx").on(table.tenant, table.createdAt, table.id)],
);

/** The bootstrap secret works once: its hash is kept when it has been used. */
export const bootstrapUses = pgTable("bootstrap_uses", {
  secretHash: text("secret_hash").primaryKey(),
  apiKeyId: text("api_key_id").notNull(),
  usedAt: instant("used_at").notNull(),
});

/** Unique for ever. The row and the effect commit together; a replay answers `response`. */
export const idempotencyKeys = pgTable(
  "idempotency_keys",
  {
    tenant: text("tenant").notNull(),
    principal: text("principal").notNull(),
    key: text("key").notNull(),
    /** SHA-256 of method, path and body: another request with the same key is refused. */
    requestHash: text("request_hash").notNull(),
    status: integer("status").notNull(),
    /** The answer without any secret that is shown once. */
    response: jsonb("response").notNull(),
    createdAt: instant("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenant, table.principal, table.key] })],
);

/** The pushed version of each chain; the files are in R2 under the content hash. */
export const chains = pgTable(
  "chains",
  {
    tenant: text("tenant").notNull(),
    id: text("id").notNull(),
    contentHash: text("content_hash").notNull(),
    displayName: text("display_name").notNull(),
    /** The parsed profile, as domain/chain types it. */
    profile: jsonb("profile").notNull(),
    pushedAt: instant("pushed_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenant, table.id] })],
);

export const subscriptions = pgTable(
  "subscriptions",
  {
    id: uuid("id").primaryKey(),
    tenant: text("tenant").notNull(),
    userId: uuid("user_id").references(() => users.id),
    chain: text("chain").notNull(),
    nodeType: text("node_type").notNull(),
    provider: text("provider").notNull(),
    region: text("region").notNull(),
    instanceType: text("instance_type").notNull(),
    /** pending_payment | active | expiring | terminated */
    status: text("status").notNull(),
    /** How long one payment lasts. */
    durationDays: integer("duration_days").notNull().default(30),
    createdAt: instant("created_at").notNull(),
    expiresAt: instant("expires_at"),
  },
  (table) => [
    index("subscriptions_tenant_created_idx").on(table.tenant, table.createdAt, table.id),
    // Asking twice for the same unpaid subscription answers the one that is there.
    uniqueIndex("subscriptions_pending_idx")
      .on(table.tenant, table.userId, table.chain, table.nodeType, table.durationDays)
      .where(sql`status = 'pending_payment' and user_id is not null`),
  ],
);

/** A copy of each NodeObject's truth, guarded by (incarnation, state_version), and the consumer's cursor into its outbox. */
export const nodes = pgTable(
  "nodes",
  {
    id: uuid("id").primaryKey(),
    tenant: text("tenant").notNull(),
    userId: uuid("user_id").references(() => users.id),
    subscriptionId: uuid("subscription_id")
      .notNull()
      .references(() => subscriptions.id),
    chain: text("chain").notNull(),
    nodeType: text("node_type").notNull(),
    chainContentHash: text("chain_content_hash").notNull(),
    provider: text("provider").notNull(),
    region: text("region").notNull(),
    createdAt: instant("created_at").notNull(),
    incarnation: bigint("incarnation", { mode: "number" }).notNull().default(0),
    stateVersion: bigint("state_version", { mode: "number" }).notNull().default(0),
    state: text("state").notNull().default("provisioning"),
    applicationHealth: text("application_health").notNull().default("unknown"),
    syncStatus: text("sync_status").notNull().default("unknown"),
    stateSince: instant("state_since").notNull(),
    downSince: instant("down_since"),
    endpoints: jsonb("endpoints").notNull().default({}),
    /** When the object expects to act next; the sweep pokes the overdue. */
    nextDue: instant("next_due"),
    touchedAt: instant("touched_at"),
    outboxIncarnation: bigint("outbox_incarnation", { mode: "number" }).notNull().default(0),
    outboxPosition: bigint("outbox_position", { mode: "number" }).notNull().default(0),
  },
  (table) => [
    index("nodes_tenant_created_idx").on(table.tenant, table.createdAt, table.id),
    index("nodes_tenant_state_idx").on(table.tenant, table.state),
    index("nodes_next_due_idx").on(table.nextDue),
    // A node belongs to exactly one subscription, and a subscription has at most one node that has not ended.
    uniqueIndex("nodes_live_subscription_idx")
      .on(table.subscriptionId)
      .where(sql`state not in ('terminated', 'failed')`),
  ],
);

/** What a node's outbox said, in order. */
export const nodeEvents = pgTable(
  "node_events",
  {
    eventId: uuid("event_id").primaryKey(),
    nodeId: uuid("node_id")
      .notNull()
      .references(() => nodes.id),
    incarnation: bigint("incarnation", { mode: "number" }).notNull(),
    position: bigint("position", { mode: "number" }).notNull(),
    kind: text("kind").notNull(),
    body: jsonb("body").notNull(),
    occurredAt: instant("occurred_at").notNull(),
    /** When the consumer committed it; the difference is the outbox's lag. */
    recordedAt: instant("recorded_at").notNull().defaultNow(),
  },
  (table) => [
    uniqueIndex("node_events_order_idx").on(table.nodeId, table.incarnation, table.position),
    index("node_events_recorded_idx").on(table.recordedAt),
  ],
);

/** Which sagas should be running, and how they ended. The id is the workflow instance's. */
export const sagas = pgTable(
  "sagas",
  {
    id: text("id").primaryKey(),
    tenant: text("tenant").notNull(),
    /** provision-node | terminate-node */
    workflow: text("workflow").notNull(),
    nodeId: uuid("node_id")
      .notNull()
      .references(() => nodes.id),
    /** running | succeeded | failed | superseded */
    status: text("status").notNull(),
    step: text("step"),
    code: text("code"),
    message: text("message"),
    partialFailures: jsonb("partial_failures").notNull().default([]),
    /** How often the sweep restarted an errored instance. */
    restarts: integer("restarts").notNull().default(0),
    requestedBy: text("requested_by").notNull(),
    createdAt: instant("created_at").notNull(),
    updatedAt: instant("updated_at").notNull(),
    endedAt: instant("ended_at"),
    sweptAt: instant("swept_at"),
  },
  (table) => [
    index("sagas_open_idx").on(table.sweptAt).where(sql`status = 'running'`),
    index("sagas_node_idx").on(table.nodeId),
  ],
);

/** Each step of a saga with its times: what the demo and an operator watch. */
export const sagaSteps = pgTable(
  "saga_steps",
  {
    sagaId: text("saga_id")
      .notNull()
      .references(() => sagas.id),
    name: text("name").notNull(),
    position: integer("position").notNull(),
    /** running | succeeded | failed | skipped */
    status: text("status").notNull(),
    attempts: integer("attempts").notNull().default(1),
    startedAt: instant("started_at").notNull(),
    endedAt: instant("ended_at"),
    detail: text("detail"),
  },
  (table) => [primaryKey({ columns: [table.sagaId, table.name] })],
);

/** Hosts at a provider. The row is the "about to create" mark: it is there before the provider is asked. */
export const hosts = pgTable(
  "hosts",
  {
    /** The tag that the host carries at the provider: `orrery-<node id>-g<generation>`. */
    tag: text("tag").primaryKey(),
    tenant: text("tenant").notNull(),
    nodeId: uuid("node_id")
      .notNull()
      .references(() => nodes.id),
    generation: integer("generation").notNull(),
    provider: text("provider").notNull(),
    region: text("region").notNull(),
    instanceType: text("instance_type").notNull(),
    /** creating | running | destroying | destroyed */
    status: text("status").notNull(),
    providerHostId: text("provider_host_id"),
    address: text("address"),
    createdAt: instant("created_at").notNull(),
    updatedAt: instant("updated_at").notNull(),
    destroyedAt: instant("destroyed_at"),
    adopted: boolean("adopted").notNull().default(false),
  },
  (table) => [index("hosts_node_idx").on(table.nodeId)],
);

/**
 * The data encryption key of each node that has keys, wrapped. A row without one says that the node's keys are gone for
 * good: whoever comes late with new ones, or with the backup, finds that it must not.
 */
export const nodeDeks = pgTable("node_deks", {
  nodeId: uuid("node_id")
    .primaryKey()
    .references(() => nodes.id),
  tenant: text("tenant").notNull(),
  /** How the DEK is wrapped, for example `master-v1`. */
  wrapping: text("wrapping"),
  /** Hex. */
  wrappedDek: text("wrapped_dek"),
  /** Hex; over all of the node's keys, by the DEK. */
  keysMac: text("keys_mac"),
  createdAt: instant("created_at").notNull(),
  /** When the copy in R2 was last found to be the same. */
  backedUpAt: instant("backed_up_at"),
  deletedAt: instant("deleted_at"),
  /** When the sweep made sure that nothing came after the deletion. */
  settledAt: instant("settled_at"),
});

/** A node's keys, each encrypted with its DEK. */
export const nodeKeys = pgTable(
  "node_keys",
  {
    nodeId: uuid("node_id")
      .notNull()
      .references(() => nodeDeks.nodeId),
    name: text("name").notNull(),
    /** As domain/keys names it. */
    type: text("type").notNull(),
    /** generated */
    source: text("source").notNull(),
    /** Hex; null where the type has none. */
    publicKey: text("public_key"),
    nonce: text("nonce").notNull(),
    ciphertext: text("ciphertext").notNull(),
    createdAt: instant("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.nodeId, table.name] })],
);

/** What could not be parsed, kept for a person to look at and replay. */
export const deadLetters = pgTable("dead_letters", {
  id: uuid("id").primaryKey(),
  tenant: text("tenant").notNull(),
  queue: text("queue").notNull(),
  body: jsonb("body").notNull(),
  reason: text("reason").notNull(),
  createdAt: instant("created_at").notNull(),
  replayedAt: instant("replayed_at"),
});

/** Forced transitions, key creation and other acts of people: append-only. */
export const auditLog = pgTable(
  "audit_log",
  {
    id: uuid("id").primaryKey(),
    tenant: text("tenant").notNull(),
    actor: text("actor").notNull(),
    action: text("action").notNull(),
    entity: text("entity").notNull(),
    detail: jsonb("detail").notNull().default({}),
    occurredAt: instant("occurred_at").notNull(),
  },
  (table) => [index("audit_log_entity_idx").on(table.entity)],
);
