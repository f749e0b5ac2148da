import { once } from "node:events";
import { createServer } from "node:http";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { type NodeStatusCheck, runtimeSchema } from "../../../domain/chain/runtime.ts";
import { at, checkReadiness, toHeight } from "../../../ops-agent/probe/check.ts";

const never = new AbortController().signal;

function check(nodeStatus: object): NodeStatusCheck {
  return runtimeSchema.parse({
    schema_version: "1.0",
    chain_profile_id: "c",
    process: { command: "bin/x" },
    ports: { rpc: 1 },
    node_status: { port: "rpc", timeout: "300ms", ...nodeStatus },
  }).node_status;
}

const evm = check({
  kind: "json_rpc",
  synced: { method: "eth_syncing", pointer: "", equals: false },
  height: { method: "eth_blockNumber", pointer: "" },
});
const cosmos = check({
  kind: "http",
  path: "/status",
  synced: { pointer: "/result/sync_info/catching_up", equals: false },
  height: { pointer: "/result/sync_info/latest_block_height" },
});

/** A node that answers every request through the function; null never answers. */
async function node(answer: (body: string) => { status?: number; text: string } | null): Promise<number> {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      const result = answer(body);
      if (result !== null) response.writeHead(result.status ?? 200).end(result.text);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

function rpc(syncing: unknown, height: unknown): Promise<number> {
  return node((body) => ({ text: JSON.stringify({ result: body.includes("eth_syncing") ? syncing : height }) }));
}

describe("the readiness check", () => {
  it("reads synced, syncing and the height from JSON-RPC", async () => {
    expect(await checkReadiness(evm, await rpc(false, "0x10"), never)).toEqual({
      syncStatus: "synced",
      height: 16n,
      detail: "",
    });
    const syncing = await checkReadiness(evm, await rpc({ currentBlock: "0x1" }, "0x1"), never);
    expect(syncing).toMatchObject({ syncStatus: "syncing", height: 1n });
  });

  it("reads the same from a plain HTTP answer", async () => {
    const port = await node(() => ({
      text: JSON.stringify({ result: { sync_info: { catching_up: false, latest_block_height: "12" } } }),
    }));
    expect(await checkReadiness(cosmos, port, never)).toEqual({ syncStatus: "synced", height: 12n, detail: "" });
    const ready = check({ kind: "http", path: "/ready" });
    expect(await checkReadiness(ready, await node(() => ({ text: "ok" })), never)).toMatchObject({
      syncStatus: "synced",
    });
    expect(await checkReadiness(ready, await node(() => ({ status: 503, text: "" })), never)).toMatchObject({
      syncStatus: "unknown",
    });
  });

  it("is unknown, with a reason, when nothing listens, hangs, fails, or answers something else", async () => {
    const hanging = await node(() => null);
    const error = await node(() => ({ text: '{"error":{"code":-32601}}' }));
    const missing = await node(() => ({ text: "{}" }));
    const noJson = await node(() => ({ text: "<html>" }));
    const endless = await node(() => ({ text: "x".repeat(2_000_000) }));
    for (const port of [1, hanging, error, missing, noJson, endless]) {
      const found = await checkReadiness(evm, port, never);
      expect(found.syncStatus).toBe("unknown");
      expect(found.detail).not.toBe("");
    }
  });

  it("never throws, whatever the node answers", async () => {
    let text = "";
    const port = await node(() => ({ text }));
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.json(), fc.string()), async (answer) => {
        text = answer;
        for (const one of [evm, cosmos])
          expect(["unknown", "syncing", "synced"]).toContain((await checkReadiness(one, port, never)).syncStatus);
      }),
      { numRuns: 100 },
    );
  });
});

describe("heights and pointers", () => {
  it("are read as chains write them, and nothing else is", () => {
    expect([toHeight(5), toHeight("7"), toHeight("0xff")]).toEqual([5n, 7n, 255n]);
    for (const value of [-1, 1.5, "", "x", "0x", "1e3", null, {}, `0x${"f".repeat(17)}`])
      expect(toHeight(value)).toBeNull();
  });

  it("follow RFC 6901", () => {
    const document = { "a/b": { "~": [10, 20] } };
    expect(at(document, "/a~1b/~0/1")).toBe(20);
    expect(at(document, "")).toBe(document);
    expect(at(document, "/constructor")).toBeUndefined();
  });
});
