import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { parse, stringify } from "yaml";
import { z } from "zod";
import { commandSchema, listOf } from "../../cli/answers.ts";
import { readChainFiles } from "../../cli/chain-files.ts";
import { requireNoProcesses } from "../../dev/leftovers.ts";
import { until } from "../../dev/ready.ts";
import { developmentSecrets } from "../../dev/secrets.ts";
import { type Stack, startStack } from "../../dev/stack.ts";
import { deriveNodeToken } from "../../domain/auth/node-token.ts";
import { masterWrapping } from "../../domain/keys/dek-wrapping.ts";
import { decryptKey, type KeyLabel } from "../../domain/keys/envelope.ts";
import { type Finding, filesBelow, type Secret, SecretSearch } from "./secret-search.ts";
import { hostOf, requestNode, untilSagaEnded, untilState } from "./walk.ts";

const REPOSITORY = join(import.meta.dirname, "../..");
const HOST_LOG = /(^|\/)(agent|node|recipe)\.log$/;

describe("secrets of a whole deployment", () => {
  const dataDir = mkdtempSync(join(tmpdir(), "orrery-e2e-secrets-"));
  let stack: Stack;
  /** Everything that the deployment answered to anybody in this test. */
  const answers: string[] = [];

  beforeAll(async () => {
    const realFetch = globalThis.fetch;
    vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
      const response = await realFetch(input, init);
      answers.push(await response.clone().text());
      return response;
    });
    const entry = "test/workerd/queue-recorder.ts";
    stack = await startStack({ repoDir: REPOSITORY, dataDir, watch: false, cronEveryMs: null, entry });
  });
  afterAll(async () => {
    vi.restoreAllMocks();
    await stack?.stop();
    requireNoProcesses(dataDir);
    rmSync(dataDir, { recursive: true, force: true });
  });

  it("are found nowhere: neither while a node lives, nor after its end", async () => {
    const nodeId = await requestNode(stack);
    expect((await untilSagaEnded(stack, nodeId, "provision-node")).status).toBe("succeeded");
    await untilState(stack, nodeId, ["healthy"]);
    await untilCommandEnds(nodeId, await post(`/nodes/${nodeId}/keys/inject`));
    await untilCommandEnds(nodeId, await post(`/nodes/${nodeId}/commands`, { type: "RESTART" }));
    await post(`/admin/nodes/${nodeId}/keys/restore`);

    const secrets = await secretsOf(nodeId);
    expect(await keyFileOf(nodeId)).toBe(bytesToHex(secrets.chainKey));
    const search = new SecretSearch([
      { name: "DEK", bytes: secrets.dek },
      { name: "chain key", bytes: secrets.chainKey },
      { name: "node token", bytes: secrets.token },
    ]);
    await askEverything(nodeId);
    expect(await everywhere(search)).toEqual([]);

    await stack.api.terminate(nodeId);
    expect((await untilSagaEnded(stack, nodeId, "terminate-node")).status).toBe("succeeded");
    await untilState(stack, nodeId, ["terminated"]);
    await askEverything(nodeId);
    expect(await everywhere(search)).toEqual([]);
  });

  it("would be found in each of the places that are searched", async () => {
    const planted: Secret = { name: "planted", bytes: randomBytes(32) };
    await plant(planted);
    const found = await everywhere(new SecretSearch([planted]));
    const places = found.map(({ place }) => place);
    for (const place of [
      /^Postgres table saga_steps$/,
      /^Postgres table dead_letters$/,
      /^postgres\/pg_wal\//,
      /^worker\/.*\/r2\//,
      /^worker\/.*\/do\/.*NodeObject/,
      /^worker\/.*\/workflows\/.*provision-node/,
      /^logs\/worker\.log$/,
      /^answer \d+$/,
      /^queue message \d+$/,
    ]) {
      expect(places).toContainEqual(expect.stringMatching(place));
    }
    const forms = new Set(found.map(({ form }) => form.replace(/ at \d/, "")));
    for (const form of ["hex", "base64", "base64url", "upper-case hex"]) expect(forms).toContain(form);
  });

  it("would be found in the clear, and in every encoding wherever it begins", () => {
    const secret = { name: "secret", bytes: randomBytes(32) };
    const search = new SecretSearch([secret]);
    const raw = Buffer.from(secret.bytes);
    for (const content of [raw, Buffer.from(raw.toString("hex"))]) {
      for (let before = 0; before < 4; before += 1) {
        const inside = Buffer.concat([randomBytes(before), content, randomBytes(5)]);
        for (const encoded of [
          inside,
          inside.toString("base64"),
          inside.toString("base64url"),
          inside.toString("hex"),
        ]) {
          expect(search.in("here", encoded)).not.toEqual([]);
        }
      }
    }
    expect(search.in("here", randomBytes(4096))).toEqual([]);
  });

  /** What this deployment holds, wherever it holds it, but for the disks of its hosts: those may know their own keys. */
  async function everywhere(search: SecretSearch): Promise<Finding[]> {
    const tables = await dump();
    const below = (part: string, isSearched?: (path: string) => boolean) =>
      search
        .below(join(dataDir, part), isSearched)
        .map((finding) => ({ ...finding, place: `${part}/${finding.place}` }));
    expect(filesBelow(join(dataDir, "worker")).length).toBeGreaterThan(5);
    return [
      ...tables.flatMap(([table, text]) => search.in(`Postgres table ${table}`, text)),
      ...below("postgres"),
      ...below("worker"),
      ...below("logs"),
      ...below("hosts", (path) => HOST_LOG.test(path)),
      ...answers.flatMap((answer, index) => search.in(`answer ${index}`, answer)),
      ...queueMessages().flatMap((message, index) => search.in(`queue message ${index}`, message)),
    ];
  }

  async function dump(): Promise<(readonly [string, string])[]> {
    return withPostgres(async (client) => {
      const { rows } = await client.query<{ name: string }>(
        "select tablename as name from pg_tables where schemaname = 'public' order by 1",
      );
      const tables: (readonly [string, string])[] = [];
      for (const { name } of rows) {
        const { rows: lines } = await client.query<{ line: string }>(`select t::text as line from ${name} t`);
        tables.push([name, lines.map(({ line }) => line).join("\n")]);
      }
      return tables;
    });
  }

  async function withPostgres<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = new pg.Client({ connectionString: stack.databaseUrl });
    await client.connect();
    try {
      return await work(client);
    } finally {
      await client.end();
    }
  }

  /** What came out of the queues, as the recording Worker printed it. */
  function queueMessages(): string[] {
    const lines = readFileSync(join(stack.logsDir, "worker.log"), "utf8").split("\n");
    return lines.filter((line) => line.includes('{"queue":"health-events'));
  }

  /** The secrets themselves, taken from what is stored by the one who holds the master secret. */
  async function secretsOf(nodeId: string) {
    const { masterSecret } = developmentSecrets(dataDir);
    const { deks, keys } = await withPostgres(async (client) => ({
      deks: await client.query<{ wrapped_dek: string }>("select wrapped_dek from node_deks where node_id = $1", [
        nodeId,
      ]),
      keys: await client.query<KeyLabel & { nonce: string; ciphertext: string }>(
        `select name, type, source, public_key as "publicKey", nonce, ciphertext from node_keys where node_id = $1`,
        [nodeId],
      ),
    }));
    const dek = await masterWrapping(masterSecret).unwrap(nodeId, hexToBytes(deks.rows[0]?.wrapped_dek ?? ""));
    const [{ nonce, ciphertext, ...facts } = missing()] = keys.rows;
    const sealed = { nonce: hexToBytes(nonce), ciphertext: hexToBytes(ciphertext) };
    const file = new TextDecoder().decode(await decryptKey(dek, { ...facts, nodeId }, sealed));
    const token = hexToBytes(await deriveNodeToken(masterSecret, nodeId, 1));
    return { dek, token, chainKey: hexToBytes(file) };
  }

  async function keyFileOf(nodeId: string): Promise<string> {
    const hostId = await hostOf(stack, nodeId);
    const path = filesBelow(join(dataDir, "hosts")).find(
      (file) => file.includes(hostId) && file.endsWith("keys/node-key"),
    );
    return path === undefined ? "" : readFileSync(join(dataDir, "hosts", path), "utf8");
  }

  const call = async (method: string, path: string, body?: object): Promise<unknown> => {
    const response = await fetch(`${stack.url}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${stack.operatorKey}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(method === "POST" ? { "idempotency-key": randomBytes(8).toString("hex") } : {}),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (response.headers.get("content-type") ?? "").includes("json") ? response.json() : null;
  };

  const post = async (path: string, body: object = {}): Promise<string> =>
    z.looseObject({ id: z.string().default("") }).parse(await call("POST", path, body)).id;

  async function untilCommandEnds(nodeId: string, commandId: string): Promise<void> {
    const attempt = async () => {
      const answer = await stack.api.command(nodeId, commandId);
      return answer.ended_at === null ? null : answer;
    };
    const command = await until(`command ${commandId} to end`, attempt, { timeoutMs: 30_000 });
    expect(command.state).toBe("completed");
  }

  /** Every GET of the API's own document, about this node. */
  async function askEverything(nodeId: string): Promise<void> {
    const document = z
      .looseObject({ paths: z.record(z.string(), z.record(z.string(), z.unknown())) })
      .parse(await call("GET", "/openapi.json"));
    const commands = listOf(commandSchema).parse(await call("GET", `/nodes/${nodeId}/commands`));
    const commandId = commands.items[0]?.id ?? "";
    const paths = Object.entries(document.paths)
      .filter(([path, item]) => "get" in item && !path.includes("/agents/"))
      .map(([path]) => path.replace("{id}", nodeId).replace("{commandId}", commandId).replace("{chain}", "anvil"));
    expect(paths.length).toBeGreaterThan(10);
    for (const path of paths) {
      const response = await fetch(`${stack.url}${path}`, {
        headers: { authorization: `Bearer ${stack.operatorKey}` },
      });
      await response.body?.cancel();
    }
  }

  /**
   * A chain whose files hold the secret: they are kept in R2 and pass a node's object. The name of a step that fails comes
   * back in the command's failure, the saga's step, the Worker's log and the API. A message of the same goes through the queue.
   */
  async function plant({ bytes }: Secret): Promise<void> {
    const raw = Buffer.from(bytes);
    const { files } = await readChainFiles(join(REPOSITORY, "chains/anvil"));
    const profile = parse(files["profile.yaml"] ?? "");
    const recipe = parse(files["recipes/full.yaml"] ?? "");
    const content = [raw.toString("base64"), raw.toString("base64url"), raw.toString("hex").toUpperCase()].join(" ");
    const holding = { name: "hold it", type: "write_file", path: "planted", content };
    const failing = { name: raw.toString("hex"), type: "run", argv: ["bin/none"] };
    const texts = {
      ...files,
      "profile.yaml": stringify({
        ...profile,
        node_types: { full: profile.node_types.full, broken: profile.node_types.full },
      }),
      "recipes/full.yaml": stringify({ ...recipe, steps: [...recipe.steps, holding] }),
      "recipes/broken.yaml": stringify({ ...recipe, node_type: "broken", steps: [failing] }),
    };
    const renamed = Object.entries(texts).map(([name, text]) => [
      name,
      text
        .replace("chain_id: anvil", "chain_id: planted")
        .replace("chain_profile_id: anvil", "chain_profile_id: planted"),
    ]);
    await stack.api.pushChain("planted", Object.fromEntries(renamed));
    const holder = await stack.api.createNode(await stack.api.createSubscription("planted", "full"));
    const failure = await stack.api.createNode(await stack.api.createSubscription("planted", "broken"));
    expect((await untilSagaEnded(stack, holder, "provision-node")).status).toBe("succeeded");
    expect((await untilSagaEnded(stack, failure, "provision-node")).status).toBe("failed");
    await fetch(`${stack.url}/test/queue`, {
      method: "POST",
      body: JSON.stringify({ planted: raw.toString("base64") }),
    });
    const parked = async () => {
      const letters = (await dump()).find(([name]) => name === "dead_letters")?.[1] ?? "";
      return letters !== "" && queueMessages().some((line) => line.includes("planted")) ? letters : null;
    };
    await until("the planted message to come out of the queue", parked, { timeoutMs: 30_000 });
  }
});

function missing(): never {
  throw new Error("The node has no keys.");
}
