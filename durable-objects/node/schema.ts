import { TIMERS_TABLE } from "../shared/alarm-clock.ts";
import type { Migration } from "../shared/migrations.ts";
import { OUTBOX_TABLE } from "../shared/outbox.ts";

/** Append-only: a step that has been deployed never changes. */
export const NODE_MIGRATIONS: readonly Migration[] = [
  {
    id: "001_node",
    statements: [
      `CREATE TABLE node (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  birth TEXT NOT NULL,
  incarnation INTEGER NOT NULL,
  state_version INTEGER NOT NULL,
  state TEXT NOT NULL,
  state_since INTEGER NOT NULL,
  application_health TEXT NOT NULL,
  sync_status TEXT NOT NULL,
  down_since INTEGER,
  maintenance_from TEXT,
  endpoints TEXT NOT NULL,
  listening_since INTEGER NOT NULL,
  storage_removed INTEGER NOT NULL DEFAULT 0
)`,
    ],
  },
  { id: "002_outbox", statements: [OUTBOX_TABLE] },
  { id: "003_timers", statements: [TIMERS_TABLE] },
  {
    id: "004_installations",
    statements: [
      `CREATE TABLE installations (
  generation INTEGER PRIMARY KEY,
  status TEXT NOT NULL,
  installation_id TEXT,
  session_epoch INTEGER NOT NULL DEFAULT 0,
  agent_version TEXT,
  connected_at INTEGER,
  last_beat_at INTEGER,
  refused_at INTEGER,
  ready_wait TEXT
)`,
    ],
  },
  {
    id: "005_commands",
    statements: [
      `CREATE TABLE commands (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  command_id TEXT NOT NULL UNIQUE,
  idempotency_key TEXT NOT NULL UNIQUE,
  generation INTEGER NOT NULL,
  type TEXT NOT NULL,
  payload TEXT NOT NULL,
  requested_by TEXT NOT NULL,
  notify TEXT,
  state TEXT NOT NULL,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  stalled INTEGER NOT NULL DEFAULT 0,
  stalled_reports INTEGER NOT NULL DEFAULT 0,
  progress TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  sent_at INTEGER,
  delivered_at INTEGER,
  acknowledged_at INTEGER,
  ended_at INTEGER,
  code TEXT,
  message TEXT,
  metadata TEXT NOT NULL DEFAULT '{}'
)`,
      "CREATE INDEX commands_open_idx ON commands (state, position) WHERE ended_at IS NULL",
    ],
  },
  {
    id: "006_identity",
    statements: [
      "ALTER TABLE installations ADD COLUMN signing_key TEXT",
      "ALTER TABLE installations ADD COLUMN sealing_key TEXT",
      "ALTER TABLE installations ADD COLUMN enrolled_at INTEGER",
      "ALTER TABLE installations ADD COLUMN refusals TEXT NOT NULL DEFAULT '{}'",
      "ALTER TABLE installations DROP COLUMN refused_at",
    ],
  },
];
