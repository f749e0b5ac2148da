import { introspectWorkflowInstance, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { secp256k1 } from "@noble/curves/secp256k1.js";
import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";
import { eq } from "drizzle-orm";
import { afterAll, beforeAll, describe, it, vi } from "vitest";
import { findNodeKeys } from "../../../db/node-keys.ts";
import { nodeDeks, nodeKeys } from "../../../db/schema.ts";
import { backupText, parseBackup } from "../../../domain/keys/backup.ts";
import { declaredKeys } from "../../../domain/keys/declared.ts";
import { openDek } from "../../../domain/keys/dek-sealing.ts";
import { decryptKey } from "../../../domain/keys/envelope.ts";
import { COMMAND_TYPES } from "../../../domain/node/command.ts";
import { sagaId } from "../../../domain/saga/ids.ts";
import type { Command } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { sweepDeps } from "../../../workers/cron/deps.ts";
import { sweepNodeKeys } from "../../../workers/cron/node-keys.ts";
import { deleteKeys, restoreKeys } from "../../../workers/node-keys/keep.ts";
import { generateNodeKeys, sendInjectKeys } from "../../../workers/workflows/activities/keys.ts";
import { type SagaDeps, sagaDeps } from "../../../workers/workflows/deps.ts";
import type { TestAgent } from "../durable-objects/test-agent.ts";
import { NODE_KEY, tinyChain } from "./chain.ts";
import { Fleet, query, stubOf } from "./fleet.ts";

let fleet: Fleet;
beforeAll(() => {
  fleet = new Fleet();
});
afterAll(() => fleet[Symbol.asyncDispose]());

const sagaOf = (nodeId: string) =>
  ({ id: sagaId("provision-node", nodeId), workflow: "provision-node", nodeId }) as const;
const generate = (nodeId: string, deps: SagaDeps = sagaDeps(env)) => generateNodeKeys(deps, sagaOf(nodeId));
const declared = declaredKeys("tiny", "full", tinyChain(NODE_KEY));
const restore = (nodeId: string) => restoreKeys(sagaDeps(env), nodeId, declared, async () => undefined);
const stored = (nodeId: string) => query((db) => findNodeKeys(db, nodeId));
const backupKey = (nodeId: string) => `dev/${nodeId}.json`;
const backup = async (nodeId: string) => (await env.NODE_KEYS.get(backupKey(nodeId)))?.text() ?? null;

/** The node's keys as Postgres has them, as the text that their backup must be. */
async function storedText(nodeId: string): Promise<string> {
  const { set } = await stored(nodeId);
  if (set === null) throw new Error("there are no keys");
  return backupText(set);
}

async function loseRows(nodeId: string): Promise<void> {
  await query((db) => db.delete(nodeKeys).where(eq(nodeKeys.nodeId, nodeId)));
  await query((db) => db.delete(nodeDeks).where(eq(nodeDeks.nodeId, nodeId)));
}

async function expectNothingLeft(nodeId: string, expect: (value: unknown) => { toEqual(other: unknown): void }) {
  expect(await stored(nodeId)).toEqual({ set: null, deleted: true, backedUpAt: null });
  expect(await query((db) => db.select().from(nodeKeys).where(eq(nodeKeys.nodeId, nodeId)))).toEqual([]);
  expect(await backup(nodeId)).toEqual(null);
}

/** What the agent reads out of INJECT_KEYS, as the files that it would write. */
async function filesOf(agent: TestAgent, { payload }: Command): Promise<Record<string, string>> {
  if (payload.case !== "injectKeys") throw new Error("no keys");
  const { nodeId, identity } = agent;
  const recipient = { nodeId, installationId: identity.installationId };
  const dek = await openDek(payload.value.sealedDek, recipient, identity.sealingSecret);
  const files = payload.value.keys.map(async (key) => {
    const { name, keyType: type, source, publicKey } = key;
    const content = await decryptKey(dek, { nodeId, name, type, source, publicKey: bytesToHex(publicKey) }, key);
    return [key.path, new TextDecoder().decode(content)] as const;
  });
  return Object.fromEntries(await Promise.all(files));
}

describe("a node's keys", { timeout: 60_000 }, () => {
  it("reach its agent and nobody else: the file's key is the one whose public half is shown", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    const injected: { agent: TestAgent; command: Command }[] = [];
    fleet.script(nodeId, (agent, commandId, type) => {
      const command = agent.last("command")?.value;
      if (type === COMMAND_TYPES.INJECT_KEYS && command !== undefined) injected.push({ agent, command });
      agent.acknowledge(commandId);
      agent.complete(commandId);
    });
    const id = await fleet.start("provision-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded" });
    expect(injected).toHaveLength(1);
    const [{ agent, command } = unreachable()] = injected;
    const file = (await filesOf(agent, command))["keys/node-key"] ?? "";
    expect(file).toMatch(/^[0-9a-f]{64}$/);
    const { set, backedUpAt } = await stored(nodeId);
    expect(set?.keys).toMatchObject([{ name: "node_key", type: "secp256k1", source: "generated" }]);
    expect(set?.keys[0]?.publicKey).toBe(bytesToHex(secp256k1.getPublicKey(hexToBytes(file), true)));
    expect(backedUpAt).toBeInstanceOf(Date);
    expect(await backup(nodeId)).toBe(await storedText(nodeId));
    expect(await backup(nodeId)).not.toContain(file);
    const rows = await runInDurableObject(stubOf(nodeId), (_object, { storage }) =>
      JSON.stringify(storage.sql.exec("select * from commands").toArray()),
    );
    expect(rows).toContain("keys/node-key");
    expect(rows).not.toContain(set?.keys[0]?.ciphertext ?? "");
    expect(rows).toMatch(/sealedDek\\":\\"\\"/);
    const details = (await fleet.steps(id, nodeId)).map(({ name, detail }) => `${name}: ${detail}`);
    expect(details).toContain("GenerateNodeKeys: one key made and backed up");
  });

  it("are none for a chain that declares none, and its steps say so", async ({ expect }) => {
    const nodeId = await fleet.orderNode("[]");
    const id = await fleet.start("provision-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded" });
    const skipped = (await fleet.steps(id, nodeId)).filter(({ status }) => status === "skipped");
    expect(skipped.map(({ name }) => name)).toEqual([
      "GenerateNodeKeys",
      "PrepareUserProvidedKeys",
      "CaptureChainGeneratedKeys",
      "InjectKeys",
    ]);
    expect(await backup(nodeId)).toBeNull();
  });

  it("are made once, however often and at once the step runs", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    await Promise.all(Array.from({ length: 5 }, () => generate(nodeId)));
    const first = await storedText(nodeId);
    expect(await generate(nodeId)).toMatchObject({ detail: "one key there and backed up" });
    expect(await storedText(nodeId)).toBe(first);
    expect(await backup(nodeId)).toBe(first);
  });

  it("are not called made before the backup can be read back", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    const deps = sagaDeps(env);
    const lossy = { ...deps, keyBackups: { ...deps.keyBackups, create: async () => undefined } };
    await expect(generate(nodeId, lossy)).rejects.toThrow(/not kept/);
    const first = await storedText(nodeId);
    await generate(nodeId);
    expect(await storedText(nodeId)).toBe(first);
    expect(await backup(nodeId)).toBe(first);
  });

  it("survive a put that fails: the step's next try backs the same keys up", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    const put = vi.spyOn(env.NODE_KEYS, "put").mockRejectedValueOnce(new Error("put: internal error (10001)"));
    const id = await fleet.start("provision-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded" });
    put.mockRestore();
    expect(await backup(nodeId)).toBe(await storedText(nodeId));
  });

  it("come back from the backup where Postgres has lost them, and are never made anew", async ({ expect }) => {
    const nodeId = await fleet.provision();
    const before = await storedText(nodeId);
    await loseRows(nodeId);
    expect(await restore(nodeId)).toMatchObject({ nodeId });
    expect(await storedText(nodeId)).toBe(before);
    await restore(nodeId);

    const fresh = await fleet.orderNode();
    await generate(fresh);
    const made = await storedText(fresh);
    await loseRows(fresh);
    expect(await generate(fresh)).toMatchObject({ detail: "one key restored from the backup" });
    expect(await storedText(fresh)).toBe(made);
    await query((db) => db.delete(nodeKeys).where(eq(nodeKeys.nodeId, fresh)));
    await generate(fresh);
    expect(await storedText(fresh)).toBe(made);
  });

  it("are never overwritten by a backup that holds others, nor the backup by them", async ({ expect }) => {
    const [nodeId, other] = [await fleet.orderNode(), await fleet.orderNode()];
    await generate(nodeId);
    const kept = await storedText(nodeId);
    await generate(other);
    const foreign = (await storedText(other)).replaceAll(other, nodeId);
    await env.NODE_KEYS.put(backupKey(nodeId), foreign);
    await expect(restore(nodeId)).rejects.toMatchObject({ code: "key_unreadable" });
    await loseRows(nodeId);
    await env.NODE_KEYS.delete(backupKey(nodeId));
    await generate(nodeId);
    const second = await storedText(nodeId);
    await env.NODE_KEYS.put(backupKey(nodeId), kept);
    await expect(restore(nodeId)).rejects.toMatchObject({ code: "keys_conflict" });
    await expect(generate(nodeId)).rejects.toMatchObject({ code: "keys_conflict" });
    expect(await storedText(nodeId)).toBe(second);
    expect(await backup(nodeId)).toBe(kept);
  });

  it("cannot be restored where there is no backup, or it is cut off, lacks a key, or says another public key", async ({
    expect,
  }) => {
    const nodeId = await fleet.orderNode();
    await expect(restore(nodeId)).rejects.toMatchObject({ code: "key_backup_missing" });
    await generate(nodeId);
    const text = await storedText(nodeId);
    await loseRows(nodeId);
    const { keys, ...set } = parseBackup(nodeId, text);
    const cut = keys.map((key) => ({ ...key, ciphertext: key.ciphertext.slice(0, -2) }));
    const others = keys.map((key) => ({ ...key, publicKey: "ab".repeat(33) }));
    for (const bad of [text.slice(0, -1), ...[cut, others, []].map((each) => backupText({ ...set, keys: each }))]) {
      await env.NODE_KEYS.put(backupKey(nodeId), bad);
      await expect(restore(nodeId)).rejects.toMatchObject({ code: "key_unreadable" });
      await expect(generate(nodeId)).rejects.toMatchObject({ code: "key_unreadable" });
    }
    expect((await stored(nodeId)).set).toBeNull();
  });

  it("are not sent while they are missing", async ({ expect }) => {
    const nodeId = await fleet.provision();
    await loseRows(nodeId);
    await expect(sendInjectKeys(sagaDeps(env), sagaOf(nodeId), 9)).rejects.toMatchObject({ code: "keys_missing" });
  });

  it("are gone with their node, in Postgres and in the backup", async ({ expect }) => {
    const nodeId = await fleet.provision();
    const id = await fleet.start("terminate-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({ status: "succeeded", partialFailures: [] });
    await expectNothingLeft(nodeId, expect);
    const step = (await fleet.steps(id, nodeId)).find(({ name }) => name === "DeleteKeys");
    expect(step?.detail).toBe("one key deleted with the backup");
    await expect(restore(nodeId)).rejects.toMatchObject({ code: "node_ended" });
  });

  it("are gone when the agent could not take them, and the saga says why", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    fleet.script(nodeId, (agent, commandId, type) => {
      agent.acknowledge(commandId);
      if (type === COMMAND_TYPES.INJECT_KEYS) agent.fail(commandId, 1, "no such account", "key_injection_failed");
      else agent.complete(commandId);
    });
    const id = await fleet.start("provision-node", nodeId);
    expect(await fleet.ended(id)).toMatchObject({
      status: "failed",
      code: "key_injection_failed",
      partialFailures: [],
    });
    await expectNothingLeft(nodeId, expect);
  });

  it("do not come back by a try that is late: neither rows nor a backup", async ({ expect }) => {
    const nodeId = await fleet.orderNode();
    const deps = sagaDeps(env);
    const create = async (node: string, text: string) => {
      await deleteKeys(deps, nodeId);
      await deps.keyBackups.create(node, text);
    };
    const late = { ...deps, keyBackups: { ...deps.keyBackups, create } };
    await expect(generate(nodeId, late)).rejects.toMatchObject({ code: "saga_superseded" });
    await expectNothingLeft(nodeId, expect);
    await expect(generate(nodeId)).rejects.toMatchObject({ code: "saga_superseded" });
    await expectNothingLeft(nodeId, expect);
  });

  it("that a saga could not delete are deleted by the sweep once the node has ended", async ({ expect }) => {
    const nodeId = await fleet.provision();
    const remove = vi.spyOn(env.NODE_KEYS, "delete").mockRejectedValue(new Error("delete: internal error (10001)"));
    await using instance = await introspectWorkflowInstance(env.TERMINATE_NODE, sagaId("terminate-node", nodeId));
    await instance.modify((m) => m.disableRetryDelays());
    const row = await fleet.ended(await fleet.start("terminate-node", nodeId));
    remove.mockRestore();
    expect(row.partialFailures).toMatchObject([{ step: "DeleteKeys" }]);
    expect(await backup(nodeId)).not.toBeNull();
    await fleet.drain(nodeId);
    const deps = sweepDeps(env);
    expect(await sweepNodeKeys(deps)).toMatchObject({ deleted: 1, failed: 0 });
    await expectNothingLeft(nodeId, expect);
    // A backup that was written in spite of all is found once more.
    await env.NODE_KEYS.put(backupKey(nodeId), "late");
    const later = { ...deps, now: () => Date.now() + 3_600_000 };
    await sweepNodeKeys(later);
    expect(await backup(nodeId)).toBeNull();
    expect(await sweepNodeKeys(later)).toMatchObject({ nodes: 0 });
  });
});

function unreachable(): never {
  throw new Error("nothing was injected");
}
