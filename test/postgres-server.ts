import { migrate } from "../db/migrate.ts";
import { startEmbeddedPostgres } from "../dev/embedded-postgres.ts";

/** A migrated PGlite in a process of its own: prints its addresses as one JSON line and ends with its standard input. */
const postgres = await startEmbeddedPostgres({ dataDir: null });
await migrate(postgres.databaseUrl);
console.log(JSON.stringify({ databaseUrl: postgres.databaseUrl, wsProxy: postgres.wsProxy }));
process.stdin.on("close", () => process.exit(0)).resume();
