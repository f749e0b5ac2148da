import { eq } from "drizzle-orm";
import { uuidv7 } from "uuidv7";
import { beforeAll, it } from "vitest";
import { type Database, type Transaction, withDatabase } from "../../db/client.ts";
import { migrate } from "../../db/migrate.ts";
import {
  eraseKeys,
  findNodeKeys,
  insertKeySet,
  markKeysBackedUp,
  markKeysDeleted,
  markKeysSettled,
  nodesWithKeysLeft,
} from "../../db/node-keys.ts";
import { insertSaga } from "../../db/sagas.ts";
import { nodeDeks, nodeKeys, nodes, subscriptions } from "../../db/schema.ts";
import { backupText } from "../../domain/keys/backup.ts";
import type { NodeKeySet } from "../../domain/keys/key-set.ts";
import { type Backend, onBothBackends, onRealPostgres } from "./backends.ts";

const TENANT = "dev";
const at = new Date("2026-11-30T12:00:00.123Z");
const later = new Date(at.getTime() + 3_600_000);

/** Any bytes will do: what they are is nobody's business here. */
function keySet(nodeId: string, fill: string): NodeKeySet {
  const key = { type: "ed25519", source: "generated", nonce: fill.repeat(12), ciphertext: fill.repeat(48) } as const;
  const keys = ["node_key", "validator"].map((name) => ({ ...key, name, publicKey: fill.repeat(32) }));
  return {
    nodeId,
    wrapping: "master-v1",
    wrappedDek: fill.repeat(60),
    createdAt: at.getTime(),
    keys,
    keysMac: fill.repeat(32),
  };
}

function using(backend: Backend) {
  const use = <T>(work: (db: Database) => Promise<T>): Promise<T> => {
    const { databaseUrl, wsProxy } = backend.database();
    return withDatabase({ DATABASE_URL: databaseUrl, DATABASE_WS_PROXY: wsProxy }, work);
  };
  const atOnce = <T>(works: readonly ((tx: Transaction) => Promise<T>)[]) =>
    Promise.all(works.map((work) => use((db) => db.transaction(work))));
  const newNode = async (): Promise<string> => {
    const place = { provider: "local", region: "local" };
    const kind = { tenant: TENANT, chain: "anvil", nodeType: "full", ...place, createdAt: at };
    const [id, subscriptionId] = [uuidv7(), uuidv7()];
    await use(async (db) => {
      await db
        .insert(subscriptions)
        .values({ ...kind, id: subscriptionId, instanceType: "process", status: "active", durationDays: 30 });
      await db.insert(nodes).values({ ...kind, id, subscriptionId, chainContentHash: "sha256:0", stateSince: at });
    });
    return id;
  };
  const insert = (set: NodeKeySet) => use((db) => db.transaction((tx) => insertKeySet(tx, TENANT, set)));
  const erase = (nodeId: string) => use((db) => db.transaction((tx) => eraseKeys(tx, nodeId)));
  beforeAll(async () => {
    await migrate(backend.database().databaseUrl);
  });
  return { use, atOnce, newNode, insert, erase };
}

onBothBackends("a node's keys", (backend) => {
  const { use, newNode, insert, erase } = using(backend);

  it("come back as they were put in", async ({ expect }) => {
    const nodeId = await newNode();
    expect(await use((db) => findNodeKeys(db, nodeId))).toEqual({ set: null, deleted: false, backedUpAt: null });
    const set = keySet(nodeId, "0a");
    expect((await insert(set)).set).toEqual(set);
    expect(await use((db) => markKeysBackedUp(db, nodeId, later))).toBe(true);
    expect(await use((db) => findNodeKeys(db, nodeId))).toEqual({ set, deleted: false, backedUpAt: later });
  });

  it("are added where they are missing, and never overwritten", async ({ expect }) => {
    const nodeId = await newNode();
    const set = keySet(nodeId, "0a");
    await insert(set);
    await use((db) => db.delete(nodeKeys).where(eq(nodeKeys.nodeId, nodeId)));
    expect((await insert(set)).set).toEqual(set);
    expect((await insert(keySet(nodeId, "0b"))).set).toEqual(set);
  });

  it("are still there when their MAC was taken away, so that nobody makes new ones", async ({ expect }) => {
    const nodeId = await newNode();
    const set = keySet(nodeId, "0a");
    await insert(set);
    await use((db) => db.update(nodeDeks).set({ keysMac: null }).where(eq(nodeDeks.nodeId, nodeId)));
    expect((await insert(set)).set).toEqual({ ...set, keysMac: "" });
  });

  it("are gone for good once they are deleted: neither old nor new ones come back", async ({ expect }) => {
    const nodeId = await newNode();
    await insert(keySet(nodeId, "0a"));
    expect(await erase(nodeId)).toBe(0);
    await use((db) => markKeysDeleted(db, TENANT, nodeId, later));
    expect(await use((db) => findNodeKeys(db, nodeId))).toMatchObject({ set: keySet(nodeId, "0a"), deleted: true });
    expect(await use((db) => markKeysBackedUp(db, nodeId, later))).toBe(false);
    expect(await erase(nodeId)).toBe(2);
    expect(await erase(nodeId)).toBe(0);
    for (const fill of ["0a", "0b"]) {
      expect(await insert(keySet(nodeId, fill))).toEqual({ set: null, deleted: true, backedUpAt: null });
    }
    const never = await newNode();
    await use((db) => markKeysDeleted(db, TENANT, never, later));
    expect(await insert(keySet(never, "0a"))).toEqual({ set: null, deleted: true, backedUpAt: null });
  });

  it("of an ended node are found by the sweep, until nothing can come any more", async ({ expect }) => {
    const [living, ended, busy] = [await newNode(), await newNode(), await newNode()];
    for (const nodeId of [living, ended, busy]) await insert(keySet(nodeId, "0a"));
    const saga = { id: `terminate-node-${busy}`, tenant: TENANT, workflow: "terminate-node", nodeId: busy } as const;
    await use(async (db) => {
      await db.update(nodes).set({ state: "failed" }).where(eq(nodes.id, ended));
      await db.update(nodes).set({ state: "terminated" }).where(eq(nodes.id, busy));
      await insertSaga(db, { ...saga, requestedBy: "key:test" }, at);
    });
    const left = (before: Date) => use((db) => nodesWithKeysLeft(db, TENANT, before, 100));
    expect(await left(at)).toEqual([ended]);
    await use((db) => markKeysDeleted(db, TENANT, ended, at));
    await erase(ended);
    expect(await left(at)).toEqual([]);
    expect(await left(later)).toEqual([ended]);
    await use((db) => markKeysSettled(db, ended, later, later));
    expect(await left(later)).toEqual([]);
  });
});

onRealPostgres("keys that many make at the same moment", (backend) => {
  const { use, atOnce, newNode } = using(backend);
  const FILLS = ["0a", "0b", "0c", "0d", "0e", "0f"];

  it("are the first one's for all of them", async ({ expect }) => {
    const nodeId = await newNode();
    const results = await atOnce(FILLS.map((fill) => (tx) => insertKeySet(tx, TENANT, keySet(nodeId, fill))));
    const texts = results.map(({ set }) => (set === null ? "none" : backupText(set)));
    expect(new Set(texts).size).toBe(1);
    expect(FILLS.map((fill) => backupText(keySet(nodeId, fill)))).toContain(texts[0]);
  });

  it("are either deleted whole or were never there, when they are deleted at the same moment", async ({ expect }) => {
    for (let round = 0; round < 5; round += 1) {
      const nodeId = await newNode();
      await atOnce<unknown>([
        (tx) => insertKeySet(tx, TENANT, keySet(nodeId, "0a")),
        (tx) => markKeysDeleted(tx, TENANT, nodeId, later),
        (tx) => insertKeySet(tx, TENANT, keySet(nodeId, "0b")),
      ]);
      await use((db) => db.transaction((tx) => eraseKeys(tx, nodeId)));
      expect(await use((db) => findNodeKeys(db, nodeId))).toEqual({ set: null, deleted: true, backedUpAt: null });
      expect(await use((db) => db.select().from(nodeKeys).where(eq(nodeKeys.nodeId, nodeId)))).toEqual([]);
    }
  });
});
