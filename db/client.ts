import { Client } from "@neondatabase/serverless";
import { drizzle, type NeonDatabase } from "drizzle-orm/neon-serverless";
import type { Config } from "../domain/config.ts";
import { DEFAULTS } from "../domain/defaults.ts";
import { OrreryError } from "../domain/errors.ts";
import * as schema from "./schema.ts";

export type Database = NeonDatabase<typeof schema>;
export type Transaction = Parameters<Parameters<Database["transaction"]>[0]>[0];
/** What a query needs: the connection itself, or the transaction that it must be part of. */
export type Executor = Database | Transaction;

export type DatabaseConfig = Pick<Config, "DATABASE_URL" | "DATABASE_WS_PROXY">;

/**
 * Runs one unit of work (a request, a step, a batch) on a connection of its own and closes it afterwards: the runtime
 * allows no socket to outlive the event that opened it, and one connection is all that one unit needs.
 * @throws database_unavailable when Postgres cannot be reached or is lost on the way; what `work` throws otherwise
 */
export async function withDatabase<T>(config: DatabaseConfig, work: (db: Database) => Promise<T>): Promise<T> {
  const client = newClient(config);
  let lost = false;
  // A connection that dies between two queries is an event; without a listener it would be an uncaught exception.
  const markLost = () => {
    lost = true;
  };
  client.on("error", markLost);
  client.on("end", markLost);
  try {
    await client.connect();
  } catch (cause) {
    abandon(client);
    throw unavailable(cause);
  }
  try {
    return await work(drizzle({ client, schema }));
  } catch (thrown) {
    throw lost || isUnavailableState(sqlStateOf(thrown)) ? unavailable(thrown) : thrown;
  } finally {
    if (lost) abandon(client);
    else await closeQuietly(client);
  }
}

/** The five-character SQLSTATE of a failed statement, or null when Postgres was not what failed. */
export function sqlStateOf(thrown: unknown): string | null {
  return databaseErrorOf(thrown)?.code ?? null;
}

/** Whether a statement failed because a row with the same unique value is there already. */
export function isUniqueViolation(thrown: unknown, constraint: string): boolean {
  const error = databaseErrorOf(thrown);
  return error?.code === "23505" && error.constraint === constraint;
}

function newClient(config: DatabaseConfig): Client {
  const client = new Client({
    connectionString: config.DATABASE_URL,
    connectionTimeoutMillis: DEFAULTS.database.connectTimeoutMs,
    query_timeout: DEFAULTS.database.queryTimeoutMs,
  });
  if (config.DATABASE_WS_PROXY === undefined) return client;
  // A plain Postgres behind a proxy: no TLS inside the socket and no password sent ahead of being asked.
  client.neonConfig.wsProxy = config.DATABASE_WS_PROXY;
  client.neonConfig.useSecureWebSocket = false;
  client.neonConfig.pipelineTLS = false;
  client.neonConfig.pipelineConnect = false;
  return client;
}

/** Without a connection `end` never settles: it is asked for, and not waited for. */
function abandon(client: Client): void {
  void closeQuietly(client);
}

/** The work has been done or has failed by then: a socket that does not close cleanly changes neither. */
async function closeQuietly(client: Client): Promise<void> {
  try {
    await client.end();
  } catch {
    // Nothing to do: the connection is gone either way.
  }
}

function unavailable(cause: unknown): OrreryError {
  return new OrreryError("database_unavailable", "Postgres could not be reached.", {}, { cause });
}

/** Connection exceptions, shutdown of the server, and too many connections. */
function isUnavailableState(state: string | null): boolean {
  if (state === null) return false;
  return state.startsWith("08") || state.startsWith("57P") || state === "53300";
}

/** drizzle wraps what Postgres answered in an error of its own and keeps the original as its cause. */
function databaseErrorOf(thrown: unknown): PostgresError | null {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 4; error = error.cause, depth += 1) {
    if (isPostgresError(error)) return error;
  }
  return null;
}

interface PostgresError extends Error {
  readonly code: string;
  readonly constraint?: string;
}

function isPostgresError(error: Error): error is PostgresError {
  return "code" in error && typeof error.code === "string" && /^[0-9A-Z]{5}$/.test(error.code) && "severity" in error;
}
