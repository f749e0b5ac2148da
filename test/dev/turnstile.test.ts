import { sql } from "drizzle-orm";
import { describe, it } from "vitest";
import { withDatabase } from "../../db/client.ts";
import { startEmbeddedPostgres } from "../../dev/embedded-postgres.ts";
import { ReadyWatcher, Turnstile } from "../../dev/turnstile.ts";

describe("the embedded Postgres", () => {
  it("loses no statement of a client when others fail, roll back or hang up at the same moment", async ({ expect }) => {
    const postgres = await startEmbeddedPostgres({ dataDir: null });
    const config = { DATABASE_URL: postgres.databaseUrl, DATABASE_WS_PROXY: postgres.wsProxy };
    try {
      await withDatabase(config, (db) => db.execute(sql`create table written (n integer primary key)`));
      const work = Array.from({ length: 60 }, (_, n) =>
        withDatabase(config, async (db) => {
          if (n % 3 === 0) await db.execute(sql`insert into written values (${n})`);
          else if (n % 3 === 1) await db.execute(sql`select 1 / ${n - n}::integer`);
          else {
            await db.transaction(async (tx) => {
              await tx.execute(sql`insert into written values (${n})`);
              throw new Error("rolled back");
            });
          }
        }).catch(() => null),
      );
      await Promise.all(work);
      const { rows } = await withDatabase(config, (db) =>
        db.execute<{ n: number }>(sql`select n from written order by n`),
      );
      expect(rows.map(({ n }) => n)).toEqual(Array.from({ length: 20 }, (_, index) => index * 3));
    } finally {
      await postgres.stop();
    }
  });
});

describe("the turnstile", () => {
  it("lets one at a time through, in order", async ({ expect }) => {
    const turnstile = new Turnstile();
    const passed: number[] = [];
    let inside = 0;
    await Promise.all(
      [1, 2, 3, 4].map(async (who) => {
        const leave = await turnstile.enter();
        inside += 1;
        expect(inside).toBe(1);
        passed.push(who);
        await Promise.resolve();
        inside -= 1;
        leave();
      }),
    );
    expect(passed).toEqual([1, 2, 3, 4]);
  });

  it("sees the server become ready wherever the chunks are cut", ({ expect }) => {
    const message = (type: string, content: string) => {
      const length = Buffer.alloc(4);
      length.writeInt32BE(content.length + 4);
      return Buffer.concat([Buffer.from(type), length, Buffer.from(content)]);
    };
    const stream = Buffer.concat([message("C", "INSERT 0 1"), message("n", ""), message("Z", "T"), message("Z", "I")]);
    for (let size = 1; size <= stream.length; size += 1) {
      const watcher = new ReadyWatcher();
      const seen = [];
      for (let at = 0; at < stream.length; at += size) seen.push(watcher.sees(stream.subarray(at, at + size)));
      expect(seen.filter((ready) => ready !== null).at(-1)).toBe("idle");
    }
  });
});
