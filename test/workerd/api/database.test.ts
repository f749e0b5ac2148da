import { env } from "cloudflare:workers";
import { sql } from "drizzle-orm";
import { describe, it } from "vitest";
import { withDatabase } from "../../../db/client.ts";
import { parseConfig } from "../../../domain/config.ts";

describe("a unit of work on Postgres from workerd", () => {
  it("runs on a connection of its own through the Neon driver, many at once", async ({ expect }) => {
    const config = parseConfig(env);
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, number) =>
        withDatabase(config, (db) => db.execute<{ answer: number }>(sql`select ${number}::integer as answer`)),
      ),
    );
    expect(answers.map((answer) => answer.rows[0]?.answer)).toEqual(Array.from({ length: 30 }, (_, n) => n));
  });

  it("answers database_unavailable when nothing listens", async ({ expect }) => {
    const config = { ...parseConfig(env), DATABASE_WS_PROXY: "127.0.0.1:9/v1" };
    await expect(withDatabase(config, (db) => db.execute(sql`select 1`))).rejects.toMatchObject({
      code: "database_unavailable",
    });
  });
});
