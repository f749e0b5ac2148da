import { asc, eq } from "drizzle-orm";
import { uuidv7 } from "uuidv7";
import { beforeAll, it } from "vitest";
import { type Database, withDatabase } from "../../db/client.ts";
import { migrate } from "../../db/migrate.ts";
import { commitOutboxBatch, type OutboxCursor, readOutboxCursor, writeProjection } from "../../db/node-projections.ts";
import { nodeEvents, nodes, subscriptions } from "../../db/schema.ts";
import type { NodeEvent, NodeProjection, NodeState } from "../../domain/node/node.ts";
import { type Backend, onBothBackends, onRealPostgres } from "./backends.ts";

const at = new Date("2026-11-30T12:00:00Z");
const FIRST = 1_000;
const SECOND = 2_000;

function using(backend: Backend) {
  return <T>(work: (db: Database) => Promise<T>): Promise<T> => {
    const { databaseUrl, wsProxy } = backend.database();
    return withDatabase({ DATABASE_URL: databaseUrl, DATABASE_WS_PROXY: wsProxy }, work);
  };
}

async function makeNode(db: Database): Promise<string> {
  const nodeId = uuidv7();
  const subscriptionId = uuidv7();
  const common = { tenant: "dev", chain: "anvil", nodeType: "full", provider: "local", region: "local", createdAt: at };
  const rest = { instanceType: "process", status: "active", durationDays: 30 };
  await db.insert(subscriptions).values({ ...common, ...rest, id: subscriptionId });
  await db
    .insert(nodes)
    .values({ ...common, id: nodeId, subscriptionId, chainContentHash: "sha256:0", stateSince: at });
  return nodeId;
}

function projection(nodeId: string, incarnation: number, stateVersion: number, state: NodeState): NodeProjection {
  const rest = {
    applicationHealth: "ok",
    syncStatus: "synced",
    downSince: null,
    endpoints: {},
    nextDue: null,
  } as const;
  return { nodeId, incarnation, stateVersion, state, stateSince: at.getTime(), ...rest };
}

function event(position: number): NodeEvent {
  const body = { kind: "listening_gap", from: 0, to: position } as const;
  return { eventId: uuidv7(), position, occurredAt: at.getTime(), body };
}

function batch(from: OutboxCursor, events: readonly NodeEvent[], copy: NodeProjection) {
  return { nodeId: copy.nodeId, from, incarnation: copy.incarnation, events, projection: copy };
}

async function stored(db: Database, nodeId: string) {
  const [row] = await db.select().from(nodes).where(eq(nodes.id, nodeId));
  const events = await db
    .select()
    .from(nodeEvents)
    .where(eq(nodeEvents.nodeId, nodeId))
    .orderBy(asc(nodeEvents.position));
  return { row, positions: events.map(({ incarnation, position }) => [incarnation, position]) };
}

onBothBackends("the copy of a node", (backend) => {
  const use = using(backend);
  beforeAll(async () => {
    await migrate(backend.database().databaseUrl);
  });

  it("takes the later version, whatever order they come in, and a later incarnation over any version", async ({
    expect,
  }) => {
    const nodeId = await use(makeNode);
    const write = (incarnation: number, version: number, state: NodeState) =>
      use((db) => writeProjection(db, projection(nodeId, incarnation, version, state), at));
    expect(await write(FIRST, 5, "healthy")).toBe(true);
    expect(await write(FIRST, 4, "down")).toBe(false);
    expect(await write(FIRST, 5, "healthy")).toBe(true);
    expect(await write(SECOND, 1, "provisioning")).toBe(true);
    expect(await write(FIRST, 99, "terminated")).toBe(false);
    const { row } = await use((db) => stored(db, nodeId));
    expect(row).toMatchObject({ state: "provisioning", incarnation: SECOND, stateVersion: 1 });
  });

  it("commits a batch only where its reader still stands, and then all of it", async ({ expect }) => {
    const nodeId = await use(makeNode);
    const start = { incarnation: 0, position: 0 };
    const first = batch(start, [event(1), event(2)], projection(nodeId, FIRST, 2, "syncing"));
    expect(await use((db) => commitOutboxBatch(db, first, at))).toBe(true);
    expect(await use((db) => commitOutboxBatch(db, first, at))).toBe(false);
    const next = batch({ incarnation: FIRST, position: 2 }, [event(3)], projection(nodeId, FIRST, 3, "healthy"));
    expect(await use((db) => commitOutboxBatch(db, next, at))).toBe(true);
    const { row, positions } = await use((db) => stored(db, nodeId));
    expect(positions).toEqual([1, 2, 3].map((position) => [FIRST, position]));
    expect(row).toMatchObject({ state: "healthy", outboxIncarnation: FIRST, outboxPosition: 3 });
  });

  it("begins at the start of a later incarnation, and never goes back to an earlier one", async ({ expect }) => {
    const nodeId = await use(makeNode);
    const commit = (from: OutboxCursor, incarnation: number, positions: number[], state: NodeState) =>
      use((db) =>
        commitOutboxBatch(db, batch(from, positions.map(event), projection(nodeId, incarnation, 1, state)), at),
      );
    expect(await commit({ incarnation: 0, position: 0 }, FIRST, [1, 2, 3], "healthy")).toBe(true);
    expect(await commit({ incarnation: FIRST, position: 3 }, SECOND, [1], "provisioning")).toBe(true);
    expect(await commit({ incarnation: SECOND, position: 1 }, FIRST, [4], "terminated")).toBe(false);
    expect(await use((db) => readOutboxCursor(db, nodeId))).toEqual({ incarnation: SECOND, position: 1 });
    expect((await use((db) => stored(db, nodeId))).row).toMatchObject({ state: "provisioning" });
  });
});

onRealPostgres("of many consumers of one node", (backend) => {
  const use = using(backend);
  beforeAll(async () => {
    await migrate(backend.database().databaseUrl);
  });

  it("exactly one commits each position, and the highest version stands at the end", async ({ expect }) => {
    const nodeId = await use(makeNode);
    const outbox = Array.from({ length: 20 }, (_, index) => event(index + 1));
    let counted = 0;
    const consumer = async () => {
      for (;;) {
        const from = await use((db) => readOutboxCursor(db, nodeId));
        if (from === null) throw new Error("no cursor");
        const events = outbox.filter(({ position }) => position > from.position).slice(0, 3);
        const last = events.at(-1)?.position;
        if (last === undefined) return;
        const copy = projection(nodeId, FIRST, last, last === outbox.length ? "healthy" : "down");
        if (await use((db) => commitOutboxBatch(db, batch(from, events, copy), at))) counted += events.length;
      }
    };
    await Promise.all(Array.from({ length: 8 }, consumer));
    expect(counted).toBe(outbox.length);
    const { row, positions } = await use((db) => stored(db, nodeId));
    expect(positions).toEqual(outbox.map(({ position }) => [FIRST, position]));
    expect(row).toMatchObject({ state: "healthy", stateVersion: 20, outboxPosition: 20 });
  });

  it("an older copy that is written at the same moment never stays", async ({ expect }) => {
    const nodeId = await use(makeNode);
    const versions = Array.from({ length: 30 }, (_, index) => ({
      incarnation: index % 3 === 0 ? SECOND : FIRST,
      version: index + 1,
    }));
    await Promise.all(
      versions.map(({ incarnation, version }) =>
        use((db) => writeProjection(db, projection(nodeId, incarnation, version, "healthy"), at)),
      ),
    );
    const { row } = await use((db) => stored(db, nodeId));
    expect(row).toMatchObject({ incarnation: SECOND, stateVersion: 28 });
  });
});
