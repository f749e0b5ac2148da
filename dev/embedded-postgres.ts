import { mkdir } from "node:fs/promises";
import { PGlite } from "@electric-sql/pglite";
import { PGLiteSocketServer } from "@electric-sql/pglite-socket";
import { startDatabaseProxy } from "./database-proxy.ts";

export interface EmbeddedPostgres {
  readonly databaseUrl: string;
  /** For `DATABASE_WS_PROXY`: host:port/path. */
  readonly wsProxy: string;
  stop(): Promise<void>;
}

/** Past this number PGlite's socket server refuses instead of queueing, so it is far above any peak of one machine. */
const MAX_CONNECTIONS = 1_000;

/**
 * Starts PGlite behind its socket server and a WebSocket proxy, so that the Neon driver and `pg` run unchanged.
 * @param options.dataDir where the data stays; null keeps it in memory
 * @param options.port of the Postgres protocol; 0 takes a free one
 */
export async function startEmbeddedPostgres(options: {
  readonly dataDir: string | null;
  readonly port?: number;
}): Promise<EmbeddedPostgres> {
  if (options.dataDir !== null) await mkdir(options.dataDir, { recursive: true });
  const db = await (options.dataDir === null ? PGlite.create() : PGlite.create(options.dataDir));
  const server = new PGLiteSocketServer({
    db,
    host: "127.0.0.1",
    port: options.port ?? 0,
    maxConnections: MAX_CONNECTIONS,
  });
  await server.start();
  const databaseUrl = `postgres://postgres@${server.getServerConn()}/postgres?sslmode=disable`;
  const proxy = await startDatabaseProxy({ databaseUrl, takeTurns: true });
  return {
    databaseUrl,
    wsProxy: proxy.wsProxy,
    async stop() {
      await proxy.stop();
      await server.stop();
      await db.close();
    },
  };
}
