import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { and, eq } from "drizzle-orm";
import { uuidv7 } from "uuidv7";
import { beforeAll, describe, it } from "vitest";
import { z } from "zod";
import { findNodeKeys } from "../../../db/node-keys.ts";
import { requireNode } from "../../../db/nodes.ts";
import { auditLog, nodeDeks, nodeKeys, nodes } from "../../../db/schema.ts";
import { parseNodeChain } from "../../../domain/chain/parse.ts";
import { parseConfig } from "../../../domain/config.ts";
import { backupText } from "../../../domain/keys/backup.ts";
import { generatedKeys } from "../../../domain/keys/declared.ts";
import { openDek } from "../../../domain/keys/dek-sealing.ts";
import { masterWrapping } from "../../../domain/keys/dek-wrapping.ts";
import { decryptKey } from "../../../domain/keys/envelope.ts";
import { makeKeySet } from "../../../domain/keys/key-set.ts";
import type { NodeBirth } from "../../../domain/node/node.ts";
import type { NodeObject } from "../../../durable-objects/node/object.ts";
import { callNode } from "../../../durable-objects/shared/stubs.ts";
import { keyDeps } from "../../../workers/node-keys/deps.ts";
import { deleteKeys, ensureKeys } from "../../../workers/node-keys/keep.ts";
import { TestIdentity } from "../durable-objects/test-identity.ts";
import { call, callWith, chainFiles, database, idOf, mintKey, recordedSagas } from "./harness.ts";

const NODES = "/api/v1/nodes";
const CHAIN = "keyed";
const INPUTS = `
provisioning_inputs:
  - { name: node_key, type: secret, source: generated, key_type: ed25519, phase: pre_provision }
  - { name: jwt, type: secret, source: generated, key_type: jwt-hex, phase: pre_provision, file: { path: etc/jwt, mode: "0640" } }
`;
const files = chainFiles(CHAIN);
const keyed = { ...files, "profile.yaml": `${files["profile.yaml"]}${INPUTS}` };
const declared = generatedKeys(parseNodeChain(CHAIN, "full", keyed).profile);
const deps = () => keyDeps(env, parseConfig(env));

let admin = "";
beforeAll(async () => {
  admin = await mintKey({ scopes: ["admin"] });
  const pushed = await call("PUT", `/api/v1/chains/${CHAIN}`, { key: admin, body: { files: keyed } });
  if (pushed.status !== 200) throw new Error(pushed.text);
});

/** A customer's node with an agent that has enrolled, and its keys. */
async function nodeWithKeys(userId = uuidv7()) {
  const owner = await mintKey({ scopes: ["nodes:read", "nodes:write"], userId });
  const wish = { chain: CHAIN, node_type: "full", status: "active" };
  const subscription = idOf(await call("POST", "/api/v1/subscriptions", { key: admin, body: wish }));
  const { bindings } = recordedSagas();
  const id = idOf(await callWith(bindings, "POST", NODES, { key: admin, body: { subscription_id: subscription } }));
  await database((db) => db.update(nodes).set({ userId }).where(eq(nodes.id, id)));
  const row = await database((db) => requireNode(db, { tenant: env.TENANT, userId: null }, id));
  const birth: NodeBirth = { ...row, nodeId: row.id, createdAt: row.createdAt.getTime() };
  const identity = new TestIdentity();
  await callNode(env, id, async (node) => {
    await node.initialise(birth);
    await node.expectInstallation(1, null);
    await node.enroll(identity.claim(id));
  });
  const { set } = await ensureKeys(deps(), id, declared);
  return { id, owner, identity, set };
}

const keysPath = (id: string) => `${NODES}/${id}/keys`;
const restorePath = (id: string) => `/api/v1/admin/nodes/${id}/keys/restore`;

async function loseRows(id: string): Promise<void> {
  await database((db) => db.delete(nodeKeys).where(eq(nodeKeys.nodeId, id)));
  await database((db) => db.delete(nodeDeks).where(eq(nodeDeks.nodeId, id)));
}

const isNodeKey = (id: string) => and(eq(nodeKeys.nodeId, id), eq(nodeKeys.name, "node_key"));

async function acts(id: string): Promise<string[]> {
  const rows = await database((db) =>
    db
      .select()
      .from(auditLog)
      .where(eq(auditLog.entity, `node:${id}`)),
  );
  return rows.map(({ action }) => action);
}

describe("a node's keys", () => {
  it("are shown to who may see the node: what they are, and nothing of what is stored", async ({ expect }) => {
    const { id, owner, set } = await nodeWithKeys();
    const shown = await call("GET", keysPath(id), { key: owner });
    expect(shown).toMatchObject({ status: 200, json: { next_cursor: null } });
    const instant = expect.stringMatching(/Z$/);
    const common = { source: "generated", created_at: instant, backed_up_at: instant };
    expect(shown.json.items).toEqual([
      { ...common, name: "jwt", type: "jwt-hex", public_key: null },
      {
        ...common,
        name: "node_key",
        type: "ed25519",
        public_key: set.keys.find(({ name }) => name === "node_key")?.publicKey,
      },
    ]);
    for (const { nonce, ciphertext } of set.keys) {
      expect(shown.text).not.toContain(nonce);
      expect(shown.text).not.toContain(ciphertext);
    }
    const stranger = await mintKey({ scopes: ["nodes:read"], userId: uuidv7() });
    expect(await call("GET", keysPath(id), { key: stranger })).toMatchObject({
      status: 404,
      json: { code: "node_not_found" },
    });
    for (const path of [restorePath(id), `${keysPath(id)}/inject`]) {
      expect(await call("POST", path, { key: owner, body: {} })).toMatchObject({
        status: 403,
        json: { code: "insufficient_scope" },
      });
    }
  });

  it("are brought back from the backup, again and again, and it is noted who asked", async ({ expect }) => {
    const { id, set } = await nodeWithKeys();
    await loseRows(id);
    expect((await call("GET", keysPath(id), { key: admin })).json.items).toEqual([]);
    for (let round = 0; round < 2; round += 1) {
      const restored = await call("POST", restorePath(id), { key: admin });
      expect(restored.status).toBe(200);
      expect(restored.json.items).toHaveLength(2);
    }
    const { set: back } = await database((db) => findNodeKeys(db, id));
    expect(back && backupText(back)).toBe(backupText(set));
    expect(await acts(id)).toEqual(["node_keys.restore", "node_keys.restore"]);
  });

  it("are shown only as they were made: not with another public key, and not with one that is another node's", async ({
    expect,
  }) => {
    const { id } = await nodeWithKeys();
    const path = keysPath(id);
    const refused = { status: 500, json: { code: "key_unreadable" } };
    const [kept] = await database((db) => db.select().from(nodeKeys).where(isNodeKey(id)));
    if (kept === undefined) throw new Error("no key");
    for (const forged of [{ publicKey: "ab".repeat(32) }, { publicKey: null }, { type: "random" }]) {
      await database((db) => db.update(nodeKeys).set(forged).where(isNodeKey(id)));
      expect(await call("GET", path, { key: admin })).toMatchObject(refused);
      await database((db) => db.update(nodeKeys).set(kept).where(isNodeKey(id)));
    }
    const other = await nodeWithKeys();
    const [foreign] = await database((db) => db.select().from(nodeKeys).where(isNodeKey(other.id)));
    await database((db) =>
      db
        .update(nodeKeys)
        .set({ ...foreign, nodeId: id })
        .where(isNodeKey(id)),
    );
    expect(await call("GET", path, { key: admin })).toMatchObject(refused);
    await database((db) => db.update(nodeKeys).set(kept).where(isNodeKey(id)));
    expect(await call("GET", path, { key: admin })).toMatchObject({ status: 200 });
  });

  it("are shown, sent and copied only all together: not when one was left out, put in, or stripped of its MAC", async ({
    expect,
  }) => {
    const { id, set } = await nodeWithKeys();
    const [dekRow] = await database((db) => db.select().from(nodeDeks).where(eq(nodeDeks.nodeId, id)));
    const rows = await database((db) => db.select().from(nodeKeys).where(eq(nodeKeys.nodeId, id)));
    const [first, ...others] = rows;
    if (dekRow === undefined || first === undefined) throw new Error("no keys");
    const put = async (keys: typeof rows, keysMac: string | null) => {
      await database((db) => db.delete(nodeKeys).where(eq(nodeKeys.nodeId, id)));
      await database((db) => db.insert(nodeKeys).values(keys));
      await database((db) => db.update(nodeDeks).set({ keysMac }).where(eq(nodeDeks.nodeId, id)));
    };
    const forgeries = [
      { keys: others, mac: dekRow.keysMac, sent: "keys_missing", kept: null },
      {
        keys: [...rows, { ...first, name: "more" }],
        mac: dekRow.keysMac,
        sent: "keys_conflict",
        kept: "key_unreadable",
      },
      { keys: rows, mac: null, sent: "key_unreadable", kept: "key_unreadable" },
      { keys: rows, mac: "00".repeat(32), sent: "key_unreadable", kept: "key_unreadable" },
      { keys: rows, mac: "no hex", sent: "key_unreadable", kept: "key_unreadable" },
    ];
    for (const { keys, mac, sent, kept } of forgeries) {
      await put(keys, mac);
      expect((await call("GET", keysPath(id), { key: admin })).json.code).toBe("key_unreadable");
      expect((await call("POST", `${keysPath(id)}/inject`, { key: admin })).json.code).toBe(sent);
      if (kept === null) continue;
      await expect(ensureKeys(deps(), id, declared)).rejects.toMatchObject({ code: kept });
      expect(await (await env.NODE_KEYS.get(`dev/${id}.json`))?.text()).toBe(backupText(set));
    }
    await put(rows, dekRow.keysMac);
    expect(await call("GET", keysPath(id), { key: admin })).toMatchObject({ status: 200 });
    await ensureKeys(deps(), id, declared);
    expect(await call("POST", `${keysPath(id)}/inject`, { key: admin })).toMatchObject({ status: 202 });
    expect(await payloadOf(id)).toMatchObject({ type: "INJECT_KEYS" });
  });

  it("are not restored from a backup that lacks one of them", async ({ expect }) => {
    const { id, set } = await nodeWithKeys();
    await loseRows(id);
    const { MASTER_SECRET } = parseConfig(env);
    const node = { nodeId: id, createdAt: set.createdAt };
    const fewer = await makeKeySet(node, declared.slice(1), masterWrapping(MASTER_SECRET), deps().random);
    for (const [lacking, message] of [
      [{ ...set, keys: set.keys.slice(1) }, /not all of the node's keys/],
      [fewer, /lacks keys that the node's chain declares/],
    ] as const) {
      await env.NODE_KEYS.put(`dev/${id}.json`, backupText(lacking));
      expect(await call("POST", restorePath(id), { key: admin })).toMatchObject({
        json: { code: "key_unreadable", detail: expect.stringMatching(message) },
      });
      await expect(ensureKeys(deps(), id, declared)).rejects.toMatchObject({ code: "key_unreadable", message });
    }
    expect((await database((db) => findNodeKeys(db, id))).set).toBeNull();
    expect(await acts(id)).toEqual([]);
  });

  it("are not restored over others, from nothing, or after their end", async ({ expect }) => {
    const { id, set } = await nodeWithKeys();
    await env.NODE_KEYS.delete(`dev/${id}.json`);
    await loseRows(id);
    expect(await call("POST", restorePath(id), { key: admin })).toMatchObject({
      status: 404,
      json: { code: "key_backup_missing" },
    });
    await ensureKeys(deps(), id, declared);
    await env.NODE_KEYS.put(`dev/${id}.json`, backupText(set));
    expect(await call("POST", restorePath(id), { key: admin })).toMatchObject({
      status: 409,
      json: { code: "keys_conflict" },
    });
    expect(await acts(id)).toEqual([]);
    await deleteKeys(deps(), id);
    expect(await call("POST", restorePath(id), { key: admin })).toMatchObject({
      status: 409,
      json: { code: "node_ended" },
    });
    expect((await call("POST", restorePath(uuidv7()), { key: admin })).json.code).toBe("node_not_found");
  });

  it("are sealed anew to the node's agent and sent, once for each request", async ({ expect }) => {
    const { id, identity } = await nodeWithKeys();
    const options = { key: admin, body: {}, idempotencyKey: uuidv7() };
    const sent = await call("POST", `${keysPath(id)}/inject`, options);
    expect(sent).toMatchObject({ status: 202, json: { type: "INJECT_KEYS", state: "queued" } });
    const again = await call("POST", `${keysPath(id)}/inject`, options);
    expect(again.json).toEqual(sent.json);
    const stored = await payloadOf(id);
    expect(stored.keys.map(({ name, path, mode, owner }) => ({ name, path, mode, owner }))).toEqual([
      { name: "node_key", path: "keys/node_key", mode: 0o600, owner: null },
      { name: "jwt", path: "etc/jwt", mode: 0o640, owner: null },
    ]);
    const recipient = { nodeId: id, installationId: identity.installationId };
    const dek = await openDek(base64Decode(stored.sealedDek), recipient, identity.sealingSecret);
    for (const { name, keyType: type, source, publicKey, nonce, ciphertext } of stored.keys) {
      const sealed = { nonce: base64Decode(nonce), ciphertext: base64Decode(ciphertext) };
      const content = await decryptKey(dek, { nodeId: id, name, type, source, publicKey }, sealed);
      expect(new TextDecoder().decode(content)).toMatch(/^[0-9a-f]{64}$/);
      expect(sent.text).not.toContain(ciphertext);
    }
    expect(sent.text).not.toContain(stored.sealedDek);
    expect(await acts(id)).toEqual(["node_keys.inject"]);
  });

  it("are not sent while they are missing, or where there are none", async ({ expect }) => {
    const { id } = await nodeWithKeys();
    await loseRows(id);
    expect(await call("POST", `${keysPath(id)}/inject`, { key: admin })).toMatchObject({
      status: 409,
      json: { code: "keys_missing" },
    });
  });
});

const payloadSchema = z.object({
  type: z.string(),
  sealedDek: z.string(),
  keys: z.array(
    z.object({
      name: z.string(),
      keyType: z.string(),
      source: z.string(),
      publicKey: z.string().nullable(),
      path: z.string(),
      mode: z.int(),
      owner: z.string().nullable(),
      nonce: z.string(),
      ciphertext: z.string(),
    }),
  ),
});

/** The one command of the node as its object keeps it. */
async function payloadOf(id: string): Promise<z.output<typeof payloadSchema>> {
  const stub: DurableObjectStub<NodeObject> = env.NODE.getByName(`dev/node/${id}`);
  const rows = await runInDurableObject(stub, (_object, { storage }) =>
    storage.sql.exec<{ payload: string }>("select payload from commands").toArray(),
  );
  if (rows.length !== 1) throw new Error(`${rows.length} commands`);
  return payloadSchema.parse(JSON.parse(rows[0]?.payload ?? ""));
}
