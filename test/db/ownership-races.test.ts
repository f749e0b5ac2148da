import { uuidv7 } from "uuidv7";
import { beforeAll, it } from "vitest";
import { useBootstrapSecret } from "../../db/api-keys.ts";
import { type Database, type Transaction, withDatabase } from "../../db/client.ts";
import { migrate } from "../../db/migrate.ts";
import { insertNode, requireNode } from "../../db/nodes.ts";
import { subscriptions, users } from "../../db/schema.ts";
import { insertOrFindPending, type SubscriptionRow } from "../../db/subscriptions.ts";
import { type Backend, onBothBackends, onRealPostgres } from "./backends.ts";

const TENANT = "dev";
const at = new Date("2026-11-30T12:00:00Z");

function subscription(changes: Partial<SubscriptionRow> = {}): SubscriptionRow {
  const place = { provider: "local", region: "local", instanceType: "process" };
  const kind = { chain: "anvil", nodeType: "full", ...place, status: "active", durationDays: 30 };
  return { id: uuidv7(), tenant: TENANT, userId: null, ...kind, createdAt: at, expiresAt: null, ...changes };
}

function node(subscriptionId: string, userId: string | null = null) {
  const chain = { chain: "anvil", nodeType: "full", chainContentHash: "sha256:0", provider: "local", region: "local" };
  return { id: uuidv7(), tenant: TENANT, userId, subscriptionId, ...chain, createdAt: at, stateSince: at };
}

function using(backend: Backend) {
  return <T>(work: (db: Database) => Promise<T>): Promise<T> => {
    const { databaseUrl, wsProxy } = backend.database();
    return withDatabase({ DATABASE_URL: databaseUrl, DATABASE_WS_PROXY: wsProxy }, work);
  };
}

onBothBackends("a row of one customer", (backend) => {
  const use = using(backend);
  beforeAll(async () => {
    await migrate(backend.database().databaseUrl);
  });

  it("is found by its owner and by operators of its tenant, and by nobody else", async ({ expect }) => {
    const [anna, ben] = [uuidv7(), uuidv7()];
    const owned = subscription({ userId: anna });
    const made = node(owned.id, anna);
    await use(async (db) => {
      for (const id of [anna, ben]) {
        await db.insert(users).values({ id, tenant: TENANT, displayName: "a customer", createdAt: at });
      }
      await db.insert(subscriptions).values(owned);
      await db.transaction((tx) => insertNode(tx, made));
    });
    const find = (tenant: string, userId: string | null) => use((db) => requireNode(db, { tenant, userId }, made.id));
    expect((await find(TENANT, anna)).id).toBe(made.id);
    expect((await find(TENANT, null)).id).toBe(made.id);
    await expect(find(TENANT, ben)).rejects.toMatchObject({ code: "node_not_found" });
    await expect(find("another-tenant", null)).rejects.toMatchObject({ code: "node_not_found" });
  });
});

onRealPostgres("of many who ask at the same moment", (backend) => {
  const use = using(backend);
  const race = <T>(count: number, work: (tx: Transaction) => Promise<T>) =>
    Promise.allSettled(Array.from({ length: count }, () => use((db) => db.transaction(work))));
  beforeAll(async () => {
    await migrate(backend.database().databaseUrl);
  });

  it("one gets the node of a subscription, the others are told that it is in use", async ({ expect }) => {
    const row = subscription();
    await use((db) => db.insert(subscriptions).values(row));
    const results = await race(10, (tx) => insertNode(tx, node(row.id)));
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    for (const result of results) {
      if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "subscription_in_use" });
    }
  });

  it("all get the same unpaid subscription", async ({ expect }) => {
    const userId = uuidv7();
    await use((db) =>
      db.insert(users).values({ id: userId, tenant: TENANT, displayName: "a customer", createdAt: at }),
    );
    const results = await race(10, (tx) =>
      insertOrFindPending(tx, subscription({ userId, status: "pending_payment" })),
    );
    const ids = results.map((result) => (result.status === "fulfilled" ? result.value.row.id : String(result.reason)));
    expect(new Set(ids).size).toBe(1);
  });

  it("one spends the bootstrap secret", async ({ expect }) => {
    const results = await race(10, (tx) =>
      useBootstrapSecret(tx, { secretHash: "hash", apiKeyId: uuidv7(), usedAt: at }),
    );
    expect(results.filter((result) => result.status === "fulfilled" && result.value)).toHaveLength(1);
    expect(results.filter((result) => result.status === "rejected")).toEqual([]);
  });
});
