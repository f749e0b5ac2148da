import { OrreryError } from "../../domain/errors.ts";

/** One step of an object's schema. The list is append-only: a step that has been deployed never changes. */
export interface Migration {
  readonly id: string;
  readonly statements: readonly string[];
}

/** Whether the object's database has ever been set up; an object that nobody initialised costs no storage. */
export function hasSchema(sql: SqlStorage): boolean {
  const found = sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'");
  return found.toArray().length > 0;
}

/**
 * Applies the steps that are missing, all or none; `upTo` stops after that many, so that a test can stand at any step.
 * @throws schema_ahead when the database has more steps than the list, schema_conflict when its history differs
 */
export function migrate(
  storage: DurableObjectStorage,
  migrations: readonly Migration[],
  upTo: number = migrations.length,
): void {
  if (hasSchema(storage.sql)) applyMissing(storage, migrations.slice(0, upTo));
  else {
    storage.transactionSync(() => {
      storage.sql.exec("CREATE TABLE schema_migrations (position INTEGER PRIMARY KEY, id TEXT NOT NULL)");
      applyMissing(storage, migrations.slice(0, upTo));
    });
  }
}

/**
 * Brings an object that wakes up to this version's schema; false when nobody ever set it up.
 * @throws as `migrate` does
 */
export function upgrade(storage: DurableObjectStorage, migrations: readonly Migration[]): boolean {
  if (!hasSchema(storage.sql)) return false;
  applyMissing(storage, migrations);
  return true;
}

function applyMissing(storage: DurableObjectStorage, migrations: readonly Migration[]): void {
  const applied = appliedIds(storage.sql);
  refuseForeignHistory(applied, migrations);
  const missing = migrations.slice(applied.length);
  if (missing.length === 0) return;
  storage.transactionSync(() => {
    for (const migration of missing) apply(storage.sql, migration);
  });
}

function appliedIds(sql: SqlStorage): readonly string[] {
  return sql
    .exec<{ id: string }>("SELECT id FROM schema_migrations ORDER BY position")
    .toArray()
    .map((row) => row.id);
}

function refuseForeignHistory(applied: readonly string[], migrations: readonly Migration[]): void {
  for (const [index, id] of applied.entries()) {
    const expected = migrations[index];
    if (expected === undefined) {
      throw new OrreryError("schema_ahead", `The object's schema has step "${id}", which this version does not know.`);
    }
    if (expected.id !== id) {
      throw new OrreryError(
        "schema_conflict",
        `Step ${index + 1} of the object's schema is "${id}", not "${expected.id}".`,
      );
    }
  }
}

function apply(sql: SqlStorage, migration: Migration): void {
  for (const statement of migration.statements) sql.exec(statement);
  sql.exec("INSERT INTO schema_migrations (id) VALUES (?)", migration.id);
}
