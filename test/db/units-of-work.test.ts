import { sql } from "drizzle-orm";
import { it } from "vitest";
import { withDatabase } from "../../db/client.ts";
import { onBothBackends, onRealPostgres } from "./backends.ts";

onBothBackends("a unit of work", ({ database }) => {
  const config = () => ({ DATABASE_URL: database().databaseUrl, DATABASE_WS_PROXY: database().wsProxy });

  it("runs through the Neon driver and gives its connection back, many times over", async ({ expect }) => {
    for (let round = 0; round < 5; round += 1) {
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, n) =>
          withDatabase(config(), (db) => db.execute<{ n: number }>(sql`select ${n}::integer as n`)),
        ),
      );
      expect(answers.map(({ rows }) => rows[0]?.n)).toEqual(Array.from({ length: 10 }, (_, n) => n));
    }
  });

  it("undoes a transaction that throws, and passes on what was thrown", async ({ expect }) => {
    await withDatabase(config(), (db) => db.execute(sql`create table undone (id integer)`));
    const failing = withDatabase(config(), (db) =>
      db.transaction(async (tx) => {
        await tx.execute(sql`insert into undone values (1)`);
        throw new Error("changed my mind");
      }),
    );
    await expect(failing).rejects.toThrow("changed my mind");
    const left = await withDatabase(config(), (db) => db.execute(sql`select * from undone`));
    expect(left.rows).toEqual([]);
  });

  it("tells a wrong statement from a database that cannot be reached", async ({ expect }) => {
    const wrong = withDatabase(config(), (db) => db.execute(sql`select no_such_column`));
    await expect(wrong).rejects.not.toMatchObject({ code: "database_unavailable" });
    const nowhere = { ...config(), DATABASE_WS_PROXY: "127.0.0.1:9/v1" };
    await expect(withDatabase(nowhere, (db) => db.execute(sql`select 1`))).rejects.toMatchObject({
      code: "database_unavailable",
    });
    const elsewhere = { ...config(), DATABASE_URL: "postgres://postgres@127.0.0.1:9/postgres" };
    await expect(withDatabase(elsewhere, (db) => db.execute(sql`select 1`))).rejects.toMatchObject({
      code: "database_unavailable",
    });
  });

  it("adds up what many clients add at once", async ({ expect }) => {
    await withDatabase(config(), async (db) => {
      await db.execute(sql`create table counter (value integer)`);
      await db.execute(sql`insert into counter values (0)`);
    });
    const addOne = () =>
      withDatabase(config(), (db) =>
        db.transaction(async (tx) => {
          const { rows } = await tx.execute<{ value: number }>(sql`select value from counter for update`);
          await tx.execute(sql`update counter set value = ${(rows[0]?.value ?? 0) + 1}`);
        }),
      );
    await Promise.all(Array.from({ length: 25 }, addOne));
    const { rows } = await withDatabase(config(), (db) => db.execute(sql`select value from counter`));
    expect(rows).toEqual([{ value: 25 }]);
  });
});

onRealPostgres("a unit of work whose connection is lost", ({ database }) => {
  it("answers database_unavailable", async ({ expect }) => {
    const config = { DATABASE_URL: database().databaseUrl, DATABASE_WS_PROXY: database().wsProxy };
    const lost = withDatabase(config, async (db) => {
      const { rows } = await db.execute<{ pid: number }>(sql`select pg_backend_pid() as pid`);
      await withDatabase(config, (other) => other.execute(sql`select pg_terminate_backend(${rows[0]?.pid ?? 0})`));
      await db.execute(sql`select 1`);
    });
    await expect(lost).rejects.toMatchObject({ code: "database_unavailable" });
  });
});
