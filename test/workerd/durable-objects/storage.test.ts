import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, it, vi } from "vitest";
import { errorCodeOf } from "../../../domain/errors.ts";
import { NODE_MIGRATIONS } from "../../../durable-objects/node/schema.ts";
import { hasSchema, migrate } from "../../../durable-objects/shared/migrations.ts";
import { SYNCED, TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { muteQueue, TestNode } from "./test-node.ts";

let clock: TestClock;
beforeEach(() => {
  vi.restoreAllMocks();
  clock = new TestClock();
  muteQueue();
});

/** Counts what the object writes from now on, at the boundary of its storage. */
async function countWrites(node: TestNode) {
  const counts = { rows: 0, alarms: 0 };
  await runInDurableObject(node.stub, (_object, { storage }) => {
    const { sql } = storage;
    const exec = sql.exec.bind(sql);
    vi.spyOn(sql, "exec").mockImplementation((query, ...bindings) => {
      const cursor = exec(query, ...bindings);
      counts.rows += cursor.rowsWritten;
      return cursor;
    });
    const setAlarm = storage.setAlarm.bind(storage);
    vi.spyOn(storage, "setAlarm").mockImplementation((at) => {
      counts.alarms += 1;
      return setAlarm(at);
    });
  });
  return counts;
}

describe("the steady state", () => {
  it("costs no row for beats, and one alarm row for each wake", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1, { status: SYNCED });
    await node.drain();
    await node.ringAlarm();
    const counts = await countWrites(node);
    for (let wake = 1; wake <= 5; wake += 1) {
      for (let beat = 0; beat < 12; beat += 1) {
        await clock.forward(10_000);
        await agent.ping();
      }
      await node.ringAlarm();
      expect(counts).toEqual({ rows: 0, alarms: wake });
    }
    expect((await node.stub.view()).state).toBe("healthy");
  });

  it("costs no row for full beats while a command runs", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1, { status: SYNCED });
    await node.stub.enqueueCommand(node.request("c1"));
    agent.acknowledge("c1");
    await expect.poll(async () => (await node.stub.command("c1")).state).toBe("acknowledged");
    await node.drain();
    await clock.forward(30_000);
    agent.beat("c1");
    await agent.ping();
    await node.ringAlarm();
    const counts = await countWrites(node);
    for (let beat = 0; beat < 8; beat += 1) {
      await clock.forward(10_000);
      agent.beat("c1");
      await agent.ping();
    }
    await node.stub.view();
    expect(counts).toEqual({ rows: 0, alarms: 0 });
  });

  it("begins a session with four rows: installation, node, event and its position; on the way there with none", async ({
    expect,
  }) => {
    const node = await TestNode.syncing();
    await (await TestAgent.join(node.stub, 1)).leave();
    const counts = await countWrites(node);
    const agent = await TestAgent.dial(node.stub, 2);
    agent.hello(2);
    agent.opening = null;
    await agent.until(() => agent.challenge !== null);
    expect(counts.rows).toBe(0);
    agent.opening = {};
    agent.prove();
    await agent.until(() => agent.last("welcome") !== undefined);
    expect(counts.rows).toBe(4);
    const newcomer = await TestAgent.knock(node.stub, 3);
    await agent.until(() => agent.last("probe") !== undefined);
    agent.alive();
    await newcomer.until(() => newcomer.closed !== null);
    // The copy is told of.
    expect(counts.rows).toBe(8);
    await (await TestAgent.knock(node.stub, 4)).until(() => agent.kinds().length === 3);
    agent.alive();
    await agent.ping();
    await node.stub.view();
    expect(counts.rows).toBe(8);
  });

  it("counts what is written, so that nothing written would be seen", async ({ expect }) => {
    const node = await TestNode.syncing();
    const counts = await countWrites(node);
    await node.stub.transition("terminating", "terminate_saga", null);
    expect(counts.rows).toBeGreaterThanOrEqual(2);
  });

  it("arms once on an alarm's own wake after an eviction", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1, { status: SYNCED });
    await node.drain();
    await clock.forward(60_000);
    await agent.ping();
    await evictDurableObject(node.stub);
    const storageClass = await runInDurableObject(node.stub, (_object, { storage }) => Object.getPrototypeOf(storage));
    const setAlarm = vi.spyOn(storageClass, "setAlarm");
    await clock.forward(60_000);
    await agent.ping();
    await evictDurableObject(node.stub);
    await node.ringAlarm();
    expect(setAlarm).toHaveBeenCalledTimes(1);
  });
});

const DDL =
  "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE '\\_cf%' ESCAPE '\\' ORDER BY name";

describe("the schema", () => {
  it("is this; a change needs a new migration step, and then this snapshot", async ({ expect }) => {
    const node = await TestNode.born();
    const tables = (await node.sql(DDL)).filter(({ name }) => !String(name).startsWith("sqlite_"));
    expect(tables.map(({ sql }) => sql).join("\n\n")).toMatchSnapshot();
  });

  it("is the same when upgraded from any earlier step", async ({ expect }) => {
    const fresh = await (await TestNode.born()).sql(DDL);
    for (let step = 0; step < NODE_MIGRATIONS.length; step += 1) {
      const node = new TestNode();
      await runInDurableObject(node.stub, (_object, { storage }) => migrate(storage, NODE_MIGRATIONS, step));
      await evictDurableObject(node.stub);
      expect(await node.sql(DDL), `from step ${step}`).toEqual(fresh);
    }
  });

  it("refuses a database that is ahead or has another history, and says so to callers", async ({ expect }) => {
    const refusal = (ids: readonly string[]) =>
      runInDurableObject(new TestNode().stub, (_object, { storage }) => {
        migrate(
          storage,
          ids.map((id) => ({ id, statements: [] })),
        );
        try {
          migrate(storage, NODE_MIGRATIONS);
        } catch (thrown) {
          return errorCodeOf(thrown);
        }
        return null;
      });
    const ours = NODE_MIGRATIONS.map(({ id }) => id);
    expect(await refusal([...ours, "999_future"])).toBe("schema_ahead");
    expect(await refusal(["001_other"])).toBe("schema_conflict");
    expect(await refusal(ours)).toBeNull();
  });

  it("is all or nothing", async ({ expect }) => {
    const outcome = await runInDurableObject(new TestNode().stub, (_object, { storage }) => {
      const broken = [
        { id: "1", statements: ["CREATE TABLE a (x)"] },
        { id: "2", statements: ["CREATE TABLE a (x)"] },
      ];
      try {
        migrate(storage, broken);
      } catch {
        return { failed: true, hasSchema: hasSchema(storage.sql) };
      }
      return null;
    });
    expect(outcome).toEqual({ failed: true, hasSchema: false });
  });
});
