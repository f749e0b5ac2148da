import { readFileSync } from "node:fs";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterEach, it } from "vitest";
import { z } from "zod";
import { migrate } from "../../db/migrate.ts";
import { onBothBackends, onRealPostgres } from "./backends.ts";
import { ddlOf, emptySchema } from "./ddl.ts";
import { freshDatabase } from "./real-postgres.ts";

const MIGRATIONS = new URL("../../migrations", import.meta.url).pathname;
const journalSchema = z.object({ entries: z.array(z.object({ idx: z.int(), when: z.int(), tag: z.string() })) });
const journal = journalSchema.parse(JSON.parse(readFileSync(join(MIGRATIONS, "meta/_journal.json"), "utf8")));
const COUNT = journal.entries.length;

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

async function copyOfMigrations(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "orrery-migrations-"));
  folders.push(folder);
  await cp(MIGRATIONS, folder, { recursive: true });
  return folder;
}

it("migrations stand in the order in which they were made, so that none is skipped", ({ expect }) => {
  expect(journal.entries.map(({ idx }) => idx)).toEqual(journal.entries.map((_, index) => index));
  const times = journal.entries.map(({ when }) => when);
  expect(times).toEqual([...times].sort((a, b) => a - b));
  expect(new Set(times).size).toBe(times.length);
});

onBothBackends("migrating", ({ database }) => {
  it("makes the schema that the snapshot holds, and does nothing the second time", async ({ expect }) => {
    const { databaseUrl } = database();
    expect(await migrate(databaseUrl)).toBe(COUNT);
    expect(await migrate(databaseUrl)).toBe(0);
    await expect(await ddlOf(databaseUrl)).toMatchFileSnapshot("./schema.ddl.txt");
  });

  it("step by step, with rows in the tables, ends in the same schema as at once", async ({ expect }) => {
    const { databaseUrl } = database();
    const atOnce = await ddlOf(databaseUrl);
    await emptySchema(databaseUrl);
    await migrate(databaseUrl, { upTo: 1 });
    await seed(databaseUrl);
    for (let step = 2; step <= COUNT; step += 1) expect(await migrate(databaseUrl, { upTo: step })).toBe(1);
    expect(await ddlOf(databaseUrl)).toEqual(atOnce);
    expect(await rowCount(databaseUrl, "subscriptions")).toBe(1);
  });

  it("applies all or nothing", async ({ expect }) => {
    const { databaseUrl } = database();
    await emptySchema(databaseUrl);
    const folder = await copyOfMigrations();
    const last = journal.entries.at(-1)?.tag;
    const file = join(folder, `${last}.sql`);
    await writeFile(file, `${await readFile(file, "utf8")}\n--> statement-breakpoint\nselect no_such_function();`);
    await expect(migrate(databaseUrl, { folder })).rejects.toThrow(/no_such_function/);
    expect(await ddlOf(databaseUrl)).toBe("");
    expect(await migrate(databaseUrl)).toBe(COUNT);
  });

  it("refuses a database that is ahead of this version or has another history", async ({ expect }) => {
    const { databaseUrl } = database();
    const folder = await copyOfMigrations();
    const first = join(folder, `${journal.entries[0]?.tag}.sql`);
    await writeFile(first, `${await readFile(first, "utf8")}\n-- edited later`);
    await expect(migrate(databaseUrl, { folder })).rejects.toMatchObject({ code: "schema_ahead" });
    await run(databaseUrl, `insert into migrations values (${COUNT}, 'from-the-future', now())`);
    await expect(migrate(databaseUrl)).rejects.toMatchObject({ code: "schema_ahead" });
    await run(databaseUrl, `delete from migrations where position = ${COUNT}`);
    expect(await migrate(databaseUrl)).toBe(0);
  });
});

onRealPostgres("migrations that start at once", ({ database }) => {
  it("wait for each other: one applies everything, the others nothing", async ({ expect }) => {
    const url = await freshDatabase(database(), "at_once");
    const applied = await Promise.all(Array.from({ length: 5 }, () => migrate(url)));
    expect(applied.toSorted((a, b) => b - a)).toEqual([COUNT, 0, 0, 0, 0]);
  });

  it("are not held up by a migrator that died in the middle", async ({ expect }) => {
    const url = await freshDatabase(database(), "died");
    const dying = new pg.Client({ connectionString: url });
    dying.on("error", () => undefined);
    await dying.connect();
    await dying.query("begin");
    await dying.query("select pg_advisory_xact_lock(7061977)");
    await dying.query("create table half_done (id integer)");
    const waiting = migrate(url);
    const { rows } = await dying.query<{ pid: number }>("select pg_backend_pid() as pid");
    await run(database().databaseUrl, `select pg_terminate_backend(${rows[0]?.pid})`);
    expect(await waiting).toBe(COUNT);
    expect(await ddlOf(url)).not.toContain("half_done");
  });
});

async function run(databaseUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(statement);
  await client.end();
}

/** A row as the first version wrote it. */
function seed(databaseUrl: string): Promise<void> {
  return run(
    databaseUrl,
    `insert into subscriptions (id, tenant, chain, node_type, provider, region, instance_type, status, created_at)
     values ('019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44', 'dev', 'anvil', 'full', 'local', 'local', 'process', 'active', now())`,
  );
}

async function rowCount(databaseUrl: string, table: string): Promise<number> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const { rows } = await client.query<{ count: number }>(`select count(*)::integer as count from ${table}`);
  await client.end();
  return rows[0]?.count ?? 0;
}
