import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { asc, eq } from "drizzle-orm";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, it } from "vitest";
import { deadLetters, nodeEvents, nodes } from "../../../db/schema.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { type ConsumerDeps, consumerDeps } from "../../../workers/queues/deps.ts";
import { drainOutbox } from "../../../workers/queues/drain-outbox.ts";
import { consumeHealthEvents } from "../../../workers/queues/health-events.ts";
import { handleQueue } from "../../../workers/queues/index.ts";
import { Fleet, query, stubOf } from "../workflows/fleet.ts";

let fleet: Fleet;
let deps: ConsumerDeps;
beforeAll(() => {
  fleet = new Fleet();
  deps = consumerDeps(env);
});
afterAll(() => fleet[Symbol.asyncDispose]());

/** A node with an object, and whatever its outbox holds by now. The runtime's own queue may drain it at any moment. */
async function bornNode(): Promise<string> {
  const nodeId = await fleet.orderNode();
  const [row] = await query((db) => db.select().from(nodes).where(eq(nodes.id, nodeId)));
  if (row === undefined) throw new Error("no row");
  const { id: _id, ...birth } = row;
  await stubOf(nodeId).initialise({
    nodeId,
    tenant: birth.tenant,
    subscriptionId: birth.subscriptionId,
    userId: birth.userId,
    chain: birth.chain,
    nodeType: birth.nodeType,
    chainContentHash: birth.chainContentHash,
    provider: birth.provider,
    region: birth.region,
    createdAt: birth.createdAt.getTime(),
  });
  return nodeId;
}

async function rowOf(nodeId: string) {
  const [row] = await query((db) => db.select().from(nodes).where(eq(nodes.id, nodeId)));
  return row;
}

function eventsOf(nodeId: string) {
  return query((db) =>
    db.select().from(nodeEvents).where(eq(nodeEvents.nodeId, nodeId)).orderBy(asc(nodeEvents.position)),
  );
}

/** Hands the bodies to the Worker's queue handler as one batch, by the deps of the deployment or others. */
async function consume(queue: string, bodies: readonly unknown[], given?: ConsumerDeps) {
  const messages = bodies.map((body, index) => ({ id: `m${index}`, timestamp: new Date(), attempts: 1, body }));
  const batch = createMessageBatch(queue, messages);
  const ctx = createExecutionContext();
  if (given === undefined) await handleQueue(batch, env);
  else await consumeHealthEvents(batch, given);
  const { explicitAcks, retryMessages } = await getQueueResult(batch, ctx);
  return { acked: explicitAcks.toSorted(), retried: retryMessages.map(({ msgId }) => msgId).toSorted() };
}

function lettersWith(marker: string) {
  return query(async (db) => {
    const rows = await db.select().from(deadLetters);
    return rows.filter(({ body }) => JSON.stringify(body).includes(marker));
  });
}

describe("the consumer of health events", { timeout: 60_000 }, () => {
  it("copies what a node says, in its order and once, however often it is woken", async ({ expect }) => {
    const nodeId = await bornNode();
    await stubOf(nodeId).transition("syncing", "provision_saga", null);
    await stubOf(nodeId).transition("terminating", "terminate_saga", null);
    const wakeUp = { nodeId };
    expect(await consume("health-events", [wakeUp, wakeUp, wakeUp])).toEqual({
      acked: ["m0", "m1", "m2"],
      retried: [],
    });
    await consume("health-events", [wakeUp]);
    const events = await eventsOf(nodeId);
    const moves = events.filter(({ kind }) => kind === "state_changed").map(({ body }) => Object(body).to);
    expect(moves).toEqual(["provisioning", "syncing", "terminating"]);
    expect(new Set(events.map(({ position }) => position)).size).toBe(events.length);
    expect(await rowOf(nodeId)).toMatchObject({ state: "terminating", outboxPosition: events.at(-1)?.position });
    expect((await stubOf(nodeId).readOutbox(0, 10)).events).toEqual([]);
  });

  it("lets an ended node's object forget all but its end", async ({ expect }) => {
    const nodeId = await bornNode();
    await stubOf(nodeId).forceTransition("failed", "operator", "test", "key:test");
    await consume("health-events", [{ nodeId }]);
    expect(await rowOf(nodeId)).toMatchObject({ state: "failed" });
    expect((await stubOf(nodeId).view()).state).toBe("failed");
    expect(await consume("health-events", [{ nodeId }])).toEqual({ acked: ["m0"], retried: [] });
  });

  it("counts one of two that read the same events, and loses none", async ({ expect }) => {
    const nodeId = await bornNode();
    await stubOf(nodeId).transition("syncing", "provision_saga", null);
    const { promise: bothHaveRead, resolve: release } = Promise.withResolvers<void>();
    let readers = 0;
    // Holds every drain between its reading and its commit until both have read.
    const held: ConsumerDeps = {
      ...deps,
      node: async (id, call) => {
        const answer = await deps.node(id, call);
        readers += 1;
        if (readers === 2) release();
        if (readers <= 2) await bothHaveRead;
        return answer;
      },
    };
    const counts = await Promise.all([drainOutbox(held, nodeId), drainOutbox(held, nodeId)]);
    const events = await eventsOf(nodeId);
    expect(events.length).toBeGreaterThanOrEqual(2);
    expect(counts[0] + counts[1]).toBeLessThanOrEqual(events.length);
    expect(await rowOf(nodeId)).toMatchObject({ state: "syncing" });
  });

  it("purges what an earlier consumer committed before it died", async ({ expect }) => {
    const nodeId = await bornNode();
    let calls = 0;
    const dies: ConsumerDeps = {
      ...deps,
      node: async (id, call) => {
        calls += 1;
        if (calls === 2) throw new Error("the isolate was evicted before the purge");
        return deps.node(id, call);
      },
    };
    await expect(drainOutbox(dies, nodeId)).rejects.toThrow("evicted");
    const committed = await eventsOf(nodeId);
    expect(committed).not.toEqual([]);
    await drainOutbox(deps, nodeId);
    expect(await eventsOf(nodeId)).toEqual(committed);
    expect((await stubOf(nodeId).readOutbox(0, 10)).events).toEqual([]);
  });

  it("reads more than a batch in one go", async ({ expect }) => {
    const nodeId = await bornNode();
    const count = DEFAULTS.node.outboxBatch + 5;
    for (let index = 0; index < count; index += 1) {
      const state = index % 2 === 0 ? "maintenance" : "syncing";
      await stubOf(nodeId).forceTransition(state, "operator", "test", "key:test");
    }
    await drainOutbox(deps, nodeId);
    const events = await eventsOf(nodeId);
    expect(events.filter(({ kind }) => kind === "state_changed")).toHaveLength(count + 1);
    expect(events.map(({ position }) => position)).toEqual(
      events.map(({ position }) => position).toSorted((a, b) => a - b),
    );
  });

  it("parks what is no wake-up and a wake-up for nobody, and holds up no other message", async ({ expect }) => {
    const nodeId = await bornNode();
    const marker = uuidv7();
    const bodies = [{ nodeId }, { nonsense: marker }, "text\0", null, { nodeId: marker }, { nodeId }];
    const result = await consume("health-events", bodies);
    expect(result).toEqual({ acked: ["m0", "m1", "m2", "m3", "m4", "m5"], retried: [] });
    const letters = await lettersWith(marker);
    expect(letters).toMatchObject([{ queue: "health-events" }, { queue: "health-events" }]);
    expect(letters.map(({ reason }) => reason).join()).toContain("node_not_found");
  });

  it("asks for a message again when Postgres or the object is away, that one only", async ({ expect }) => {
    const [well, ill] = [await bornNode(), await bornNode()];
    const broken: ConsumerDeps = {
      ...deps,
      node: (id, call) => {
        if (id === ill) throw new OrreryError("internal", "the object does not answer");
        return deps.node(id, call);
      },
    };
    const result = await consume("health-events", [{ nodeId: ill }, { nodeId: well }], broken);
    expect(result).toEqual({ acked: ["m1"], retried: ["m0"] });
    const away: ConsumerDeps = {
      ...deps,
      database: () => Promise.reject(new OrreryError("database_unavailable", "Postgres is away")),
    };
    expect(await consume("health-events", [{ nodeId: well }, "nonsense"], away)).toEqual({
      acked: [],
      retried: ["m0", "m1"],
    });
  });
});

describe("the consumer of dead health events", () => {
  it("files each message where a person sees it", async ({ expect }) => {
    const marker = uuidv7();
    const bodies = [{ nodeId: marker }, { "\0": ["\0 \ud800"] }];
    expect(await consume("health-events-dead", bodies)).toEqual({ acked: ["m0", "m1"], retried: [] });
    expect(await lettersWith(marker)).toMatchObject([{ queue: "health-events-dead", body: { nodeId: marker } }]);
  });
});
