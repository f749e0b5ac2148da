import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sql } from "drizzle-orm";
import { afterEach, describe, it } from "vitest";
import { withDatabase } from "../../db/client.ts";
import { migrate } from "../../db/migrate.ts";
import { startEmbeddedPostgres } from "../../dev/embedded-postgres.ts";

const directories: string[] = [];
afterEach(async () => {
  for (const directory of directories.splice(0)) await rm(directory, { recursive: true, force: true });
});

describe("the embedded Postgres", () => {
  it("keeps its data over a restart, with other addresses", async ({ expect }) => {
    const dataDir = await mkdtemp(join(tmpdir(), "orrery-embedded-"));
    directories.push(dataDir);
    const first = await startEmbeddedPostgres({ dataDir });
    await migrate(first.databaseUrl);
    await withDatabase({ DATABASE_URL: first.databaseUrl, DATABASE_WS_PROXY: first.wsProxy }, (db) =>
      db.execute(sql`insert into bootstrap_uses values ('hash', 'key', now())`),
    );
    await first.stop();
    const second = await startEmbeddedPostgres({ dataDir });
    expect(await migrate(second.databaseUrl)).toBe(0);
    const { rows } = await withDatabase({ DATABASE_URL: second.databaseUrl, DATABASE_WS_PROXY: second.wsProxy }, (db) =>
      db.execute(sql`select secret_hash from bootstrap_uses`),
    );
    await second.stop();
    expect(rows).toEqual([{ secret_hash: "hash" }]);
  }, 60_000);

  it("runs a second one beside the first, each on ports of its own", async ({ expect }) => {
    const both = await Promise.all([
      startEmbeddedPostgres({ dataDir: null }),
      startEmbeddedPostgres({ dataDir: null }),
    ]);
    const addresses = both.flatMap(({ databaseUrl, wsProxy }) => [databaseUrl, wsProxy]);
    expect(new Set(addresses).size).toBe(4);
    await Promise.all(both.map((one) => one.stop()));
  }, 60_000);

  it("lets go of a client that died in an open transaction", async ({ expect }) => {
    const postgres = await startEmbeddedPostgres({ dataDir: null });
    const config = { DATABASE_URL: postgres.databaseUrl, DATABASE_WS_PROXY: postgres.wsProxy };
    await withDatabase(config, (db) => db.execute(sql`create table half_done (id integer)`));
    await withDatabase(config, async (db) => {
      await db.execute(sql`begin`);
      await db.execute(sql`insert into half_done values (1)`);
    });
    const { rows } = await withDatabase(config, (db) => db.execute(sql`select * from half_done`));
    await postgres.stop();
    expect(rows).toEqual([]);
  }, 60_000);
});
