import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { uuidv7 } from "uuidv7";
import { vi } from "vitest";
import { type ErrorData, toErrorData } from "../../../domain/errors.ts";
import type { CommandPayload, CommandRequest } from "../../../domain/node/command.ts";
import type { NodeBirth, NodeEventBody } from "../../../domain/node/node.ts";
import type { NodeObject } from "../../../durable-objects/node/object.ts";

/** A node's object as a test sees it: by calls, by its alarm, and from inside. */
export class TestNode {
  readonly nodeId = uuidv7();

  get stub(): DurableObjectStub<NodeObject> {
    return env.NODE.getByName(`dev/node/${this.nodeId}`);
  }

  birth(part: Partial<NodeBirth> = {}): NodeBirth {
    return {
      nodeId: this.nodeId,
      tenant: "dev",
      subscriptionId: "22222222-2222-7222-8222-222222222222",
      userId: null,
      chain: "anvil",
      nodeType: "full",
      chainContentHash: "sha256:00",
      provider: "local",
      region: "local",
      createdAt: 1,
      ...part,
    };
  }

  /** A node in `provisioning` that expects its first agent. */
  static async born(): Promise<TestNode> {
    const node = new TestNode();
    await node.stub.initialise(node.birth());
    await node.stub.expectInstallation(1, null);
    return node;
  }

  /** A node whose saga has finished: `syncing`. */
  static async syncing(): Promise<TestNode> {
    const node = await TestNode.born();
    await node.stub.transition("syncing", "provision_saga", null);
    return node;
  }

  request(
    commandId: string,
    payload: CommandPayload = { type: "START" },
    part: Partial<CommandRequest> = {},
  ): CommandRequest {
    return {
      commandId,
      payload,
      ttlMs: 300_000,
      idempotencyKey: commandId,
      requestedBy: "key:test",
      notify: null,
      ...part,
    };
  }

  async events(): Promise<NodeEventBody[]> {
    const { events } = await this.stub.readOutbox(0, 10_000);
    return events.map(({ body }) => body);
  }

  async eventsOf<K extends NodeEventBody["kind"]>(kind: K): Promise<Extract<NodeEventBody, { kind: K }>[]> {
    return (await this.events()).filter((event): event is Extract<NodeEventBody, { kind: K }> => event.kind === kind);
  }

  /** Codes of the refusals that were told of. */
  async refusals(): Promise<string[]> {
    return (await this.eventsOf("agent_refused")).map(({ code }) => code);
  }

  async states(): Promise<string[]> {
    return (await this.eventsOf("state_changed")).map(({ to }) => to);
  }

  /** What the health-events consumer does: reads everything and lets the object forget it. */
  async drain(): Promise<void> {
    const { incarnation, events } = await this.stub.readOutbox(0, 10_000);
    await this.stub.purgeOutbox(incarnation, events.at(-1)?.position ?? 0);
  }

  ringAlarm(): Promise<boolean> {
    return runDurableObjectAlarm(this.stub);
  }

  alarmAt(): Promise<number | null> {
    return runInDurableObject(this.stub, (_object, state) => state.storage.getAlarm());
  }

  setAlarm(at: number): Promise<void> {
    return runInDurableObject(this.stub, (_object, state) => state.storage.setAlarm(at));
  }

  /** Everything that the node has stored. */
  async stored() {
    const tables = ["node", "installations", "commands", "outbox", "timers"];
    return Promise.all(tables.map((table) => this.sql(`SELECT * FROM ${table}`)));
  }

  async evict(): Promise<void> {
    // Only an object that runs can be evicted, and a ping wakes none.
    await this.stub.view();
    await evictDurableObject(this.stub);
  }

  sql(query: string): Promise<Record<string, SqlStorageValue>[]> {
    return runInDurableObject(this.stub, (_object, state) => state.storage.sql.exec(query).toArray());
  }
}

/** Keeps wake-ups away from the queue's real consumer, and counts them. */
export function muteQueue() {
  return vi
    .spyOn(env.HEALTH_EVENTS, "send")
    .mockResolvedValue({ metadata: { metrics: { backlogCount: 0, backlogBytes: 0 } } });
}

/** What a call was refused with. The call is awaited here, because a rejected RPC promise counts its own awaits. */
export async function refusalOf(call: () => Promise<unknown>): Promise<ErrorData> {
  try {
    await call();
  } catch (thrown) {
    return toErrorData(thrown);
  }
  throw new Error("the call was not refused");
}
