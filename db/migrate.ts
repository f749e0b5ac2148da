import { readMigrationFiles } from "drizzle-orm/migrator";
import pg from "pg";
import { OrreryError } from "../domain/errors.ts";

/**
 * Brings a Postgres up to date: `DATABASE_URL=postgres://… node db/migrate.ts`. Running it again changes nothing, and
 * of two that start at once the second waits for the first and finds nothing to do.
 */

const MIGRATIONS_FOLDER = new URL("../migrations", import.meta.url).pathname;
/** Any number that nothing else in this database locks. */
const MIGRATION_LOCK = 7_061_977;

export interface MigrateOptions {
  readonly folder?: string;
  /** Stops after so many migrations of the folder; a test of upgrades seeds rows there. */
  readonly upTo?: number;
}

/**
 * Applies what is missing, all of it or none of it, and answers how many were applied.
 * @throws schema_ahead when the database has a migration that the folder does not have or has differently
 */
export async function migrate(databaseUrl: string, options: MigrateOptions = {}): Promise<number> {
  const files = readMigrationFiles({ migrationsFolder: options.folder ?? MIGRATIONS_FOLDER });
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query("begin");
    // Held until the transaction ends. PGlite's clients share one backend, so that a session lock would not exclude
    // them from each other; there the open transaction itself does.
    await client.query("select pg_advisory_xact_lock($1)", [MIGRATION_LOCK]);
    const applied = await applyMissing(client, files.slice(0, options.upTo ?? files.length), files);
    await client.query("commit");
    return applied;
  } catch (thrown) {
    await client.query("rollback").catch(() => undefined);
    throw thrown;
  } finally {
    await client.end();
  }
}

interface MigrationFile {
  readonly sql: readonly string[];
  readonly hash: string;
}

async function applyMissing(
  client: pg.Client,
  wanted: readonly MigrationFile[],
  known: readonly MigrationFile[],
): Promise<number> {
  await client.query(
    "create table if not exists migrations (position integer primary key, hash text not null, applied_at timestamptz not null)",
  );
  const rows = await client.query<{ hash: string }>("select hash from migrations order by position");
  assertSameHistory(
    rows.rows.map((row) => row.hash),
    known,
  );
  const missing = wanted.slice(rows.rows.length);
  for (const [index, file] of missing.entries()) {
    for (const statement of file.sql) await client.query(statement);
    const position = rows.rows.length + index;
    await client.query("insert into migrations (position, hash, applied_at) values ($1, $2, now())", [
      position,
      file.hash,
    ]);
  }
  return missing.length;
}

/** Migrations are append-only: what is applied must be the beginning of what we have. */
function assertSameHistory(applied: readonly string[], known: readonly MigrationFile[]): void {
  const wrong = applied.findIndex((hash, position) => known[position]?.hash !== hash);
  if (wrong === -1) return;
  const why = wrong >= known.length ? "is not among this version's migrations" : "was applied with other contents";
  throw new OrreryError("schema_ahead", `Migration ${wrong} of the database ${why}.`, { position: wrong });
}

if (import.meta.main) {
  const databaseUrl = process.env.DATABASE_URL;
  if (databaseUrl === undefined || databaseUrl === "") {
    console.error("DATABASE_URL is not set: name the Postgres to migrate, for example postgres://user@host/orrery");
    process.exitCode = 2;
  } else {
    const applied = await migrate(databaseUrl);
    console.log(applied === 0 ? "Postgres is up to date." : `Applied ${applied} migration(s).`);
  }
}
