import { sql } from "drizzle-orm";
import { beforeAll, it } from "vitest";
import { z } from "zod";
import { type Database, withDatabase } from "../../db/client.ts";
import { type IdempotentRequest, oncePerKey } from "../../db/idempotency.ts";
import { migrate } from "../../db/migrate.ts";
import { type Backend, onBothBackends, onRealPostgres } from "./backends.ts";

const answerSchema = z.object({ number: z.number() });
const at = new Date("2026-11-30T12:00:00Z");

function request(key: string, requestHash = "same"): IdempotentRequest {
  return { tenant: "dev", principal: "key:1", key, requestHash, at };
}

function using(backend: Backend) {
  return <T>(work: (db: Database) => Promise<T>): Promise<T> => {
    const { databaseUrl, wsProxy } = backend.database();
    return withDatabase({ DATABASE_URL: databaseUrl, DATABASE_WS_PROXY: wsProxy }, work);
  };
}

onBothBackends("an idempotent request", (backend) => {
  const use = using(backend);
  beforeAll(async () => {
    await migrate(backend.database().databaseUrl);
  });

  it("has its effect once and the same answer ever after", async ({ expect }) => {
    let effects = 0;
    const once = () =>
      use((db) =>
        oncePerKey(db, request("first"), answerSchema.parse, async () => {
          effects += 1;
          return { status: 201, body: { number: effects } };
        }),
      );
    expect(await once()).toEqual({ status: 201, body: { number: 1 }, replayed: false });
    expect(await once()).toEqual({ status: 201, body: { number: 1 }, replayed: true });
    expect(effects).toBe(1);
  });

  it("never remembers what is shown once", async ({ expect }) => {
    const once = () =>
      use((db) =>
        oncePerKey(db, request("secret"), z.object({ key: z.string().nullable() }).parse, async () => ({
          status: 201,
          body: { key: "hunter2" },
          replayBody: { key: null },
        })),
      );
    expect((await once()).body.key).toBe("hunter2");
    expect((await once()).body.key).toBeNull();
    const stored = await use((db) => db.execute(sql`select response::text from idempotency_keys`));
    expect(JSON.stringify(stored.rows)).not.toContain("hunter2");
  });

  it("is refused when it asks for something else under the same key", async ({ expect }) => {
    const effect = async () => ({ status: 200, body: { number: 1 } });
    await use((db) => oncePerKey(db, request("other"), answerSchema.parse, effect));
    const other = use((db) => oncePerKey(db, request("other", "different"), answerSchema.parse, effect));
    await expect(other).rejects.toMatchObject({ code: "idempotency_key_reused" });
  });

  it("that fails leaves neither its effect nor its key behind", async ({ expect }) => {
    const failing = use((db) =>
      oncePerKey(db, request("failing"), answerSchema.parse, async (tx) => {
        await tx.execute(sql`insert into users (id, tenant, display_name, created_at)
          values ('019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44', 'dev', 'nobody', now())`);
        throw new Error("after the effect");
      }),
    );
    await expect(failing).rejects.toThrow("after the effect");
    const { rows } = await use((db) => db.execute(sql`select * from users`));
    expect(rows).toEqual([]);
    const effect = async () => ({ status: 200, body: { number: 7 } });
    const retried = await use((db) => oncePerKey(db, request("failing"), answerSchema.parse, effect));
    expect(retried).toEqual({ status: 200, body: { number: 7 }, replayed: false });
  });
});

onRealPostgres("idempotent requests at the same moment", (backend) => {
  const use = using(backend);
  beforeAll(async () => {
    await migrate(backend.database().databaseUrl);
  });

  it("with one key: the others wait for the first and answer what it answered", async ({ expect }) => {
    let effects = 0;
    const once = () =>
      use((db) =>
        oncePerKey(db, request("race"), answerSchema.parse, async (tx) => {
          effects += 1;
          const number = effects;
          await tx.execute(sql`select pg_sleep(0.2)`);
          return { status: 201, body: { number } };
        }),
      );
    const answers = await Promise.all(Array.from({ length: 12 }, once));
    expect(effects).toBe(1);
    expect(answers.map(({ body }) => body.number)).toEqual(Array.from({ length: 12 }, () => 1));
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
  });

  it("with one key: when the first is undone the next takes its place", async ({ expect }) => {
    const began = Promise.withResolvers<void>();
    const mayFail = Promise.withResolvers<void>();
    const first = use((db) =>
      oncePerKey(db, request("undone"), answerSchema.parse, async () => {
        began.resolve();
        await mayFail.promise;
        throw new Error("undone");
      }),
    );
    await began.promise;
    const effect = async () => ({ status: 200, body: { number: 2 } });
    const second = use((db) => oncePerKey(db, request("undone"), answerSchema.parse, effect));
    mayFail.resolve();
    await expect(first).rejects.toThrow("undone");
    expect(await second).toEqual({ status: 200, body: { number: 2 }, replayed: false });
  });

  it("with one key: whoever waits too long is told so and may ask again", async ({ expect }) => {
    const began = Promise.withResolvers<void>();
    const mayEnd = Promise.withResolvers<void>();
    const first = use((db) =>
      oncePerKey(db, request("slow"), answerSchema.parse, async () => {
        began.resolve();
        await mayEnd.promise;
        return { status: 200, body: { number: 1 } };
      }),
    );
    await began.promise;
    const effect = async () => ({ status: 200, body: { number: 2 } });
    const impatient = use((db) => oncePerKey(db, request("slow"), answerSchema.parse, effect, 100));
    await expect(impatient).rejects.toMatchObject({ code: "idempotency_in_progress" });
    mayEnd.resolve();
    expect((await first).body.number).toBe(1);
    const again = await use((db) => oncePerKey(db, request("slow"), answerSchema.parse, effect));
    expect(again).toMatchObject({ body: { number: 1 }, replayed: true });
  });
});
