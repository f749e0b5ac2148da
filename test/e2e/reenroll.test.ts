import { mkdtempSync, rmSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { eventSchema, listOf, nodeSchema } from "../../cli/answers.ts";
import { ApiClient } from "../../cli/api.ts";
import { chainHeight } from "../../dev/demo/node-life.ts";
import { requireNoProcesses } from "../../dev/leftovers.ts";
import { type Stack, startStack } from "../../dev/stack.ts";
import { runOrrery } from "../cli/support.ts";
import { StolenState } from "./clones.ts";
import { hostOf, requestNode, untilSagaEnded, untilState } from "./walk.ts";
import { WatchedNode } from "./watched-node.ts";

const REPOSITORY = join(import.meta.dirname, "../..");
/** The agent's exit code; its usage text names it. */
const REFUSED_FOR_GOOD = 4;

describe("a host whose disk was rebuilt", () => {
  const dataDir = mkdtempSync(join(tmpdir(), "orrery-e2e-reenroll-"));
  let stack: Stack;
  let api: ApiClient;
  let oldDisk: StolenState | null = null;
  beforeAll(async () => {
    stack = await startStack({ repoDir: REPOSITORY, dataDir, watch: false, cronEveryMs: null });
    api = new ApiClient(stack.url, stack.operatorKey);
  });
  afterAll(async () => {
    await oldDisk?.destroy();
    await stack?.stop();
    requireNoProcesses(dataDir);
    rmSync(dataDir, { recursive: true, force: true });
  });

  it("is refused with its new keys, until an operator re-enrols it; then it is the node again, with its keys, and the old disk is not", async () => {
    const nodeId = await requestNode(stack);
    expect((await untilSagaEnded(stack, nodeId, "provision-node")).status).toBe("succeeded");
    await untilState(stack, nodeId, ["healthy"]);
    const hostId = await hostOf(stack, nodeId);
    const host = join(dataDir, "hosts/hosts", hostId);
    const keyFile = join(host, "data/keys/node-key");
    const key = await readFile(keyFile, "utf8");

    await stack.hostRunner.powerOff(hostId);
    oldDisk = new StolenState(host);
    for (const name of ["state", "data"]) await rm(join(host, name), { recursive: true });
    await stack.hostRunner.startAgent(hostId);
    await expect
      .poll(async () => (await events(nodeId)).map(({ body }) => body.code), { timeout: 30_000 })
      .toContain("agent_conflict");

    await reenrol(nodeId, hostId, host);
    expect(await untilSagaEnded(stack, nodeId, "reenroll-node")).toMatchObject({ status: "succeeded" });
    const node = await untilState(stack, nodeId, ["healthy"]);
    await expect.poll(() => chainHeight(node), { timeout: 15_000 }).toBeGreaterThan(0);
    expect(await readFile(keyFile, "utf8")).toBe(key);
    const { agents = [] } = await api.get(`/nodes/${nodeId}`, nodeSchema);
    expect(agents).toMatchObject([
      { generation: 1, status: "revoked", connected: false },
      { generation: 2, status: "active", connected: true },
    ]);
    expect(agents[1]?.key_fingerprint).not.toBe(agents[0]?.key_fingerprint);

    const watched = new WatchedNode(stack.api, nodeId);
    const connections = await watched.connections();
    oldDisk.start();
    await expect.poll(() => oldDisk?.isRunning, { timeout: 30_000 }).toBe(false);
    expect(oldDisk.exitCode).toBe(REFUSED_FOR_GOOD);
    expect(oldDisk.output).toContain("agent_revoked");
    expect(await watched.connections()).toBe(connections);
    await watched.expectObedience();

    // Its state directory stays where it is this time, and serves no longer to whoever has a copy of it.
    await reenrol(nodeId, hostId, host);
    const replaced = async () => (await api.get(`/nodes/${nodeId}`, nodeSchema)).agents ?? [];
    await expect
      .poll(async () => (await replaced()).at(-1), { timeout: 30_000 })
      .toMatchObject({
        generation: 3,
        status: "active",
        connected: true,
      });
    const fingerprints = new Set((await replaced()).map(({ key_fingerprint }) => key_fingerprint));
    expect(fingerprints.size).toBe(3);
    expect(await readFile(keyFile, "utf8")).toBe(key);

    await stack.api.terminate(nodeId);
    expect(await untilSagaEnded(stack, nodeId, "terminate-node")).toMatchObject({ status: "succeeded" });
  });

  /** With the host off, so that nothing of the old agent is in the way. */
  async function reenrol(nodeId: string, hostId: string, host: string): Promise<void> {
    await stack.hostRunner.powerOff(hostId);
    const out = mkdtempSync(join(dataDir, "rebuilt-"));
    const env = { ORRERY_URL: stack.url, ORRERY_API_KEY: stack.operatorKey };
    const outcome = await runOrrery(["nodes", "reenroll", nodeId, "--out", out], env);
    expect(outcome, outcome.stderr).toMatchObject({ code: 0 });
    await bring(out, host);
    await stack.hostRunner.startAgent(hostId);
  }

  async function events(nodeId: string) {
    return (await api.get(`/nodes/${nodeId}/events`, listOf(eventSchema), { limit: 200 })).items;
  }

  /** What an operator does with both files: they take their place on the host, whose own settings stay. */
  async function bring(out: string, host: string): Promise<void> {
    const given = parse(await readFile(join(out, "agent.yaml"), "utf8"));
    const own = parse(await readFile(join(host, "agent.yaml"), "utf8"));
    await writeFile(join(host, "agent.yaml"), stringify({ ...own, ...given }), { mode: 0o600 });
    await writeFile(join(host, "node-token"), await readFile(join(out, "node-token")), { mode: 0o600 });
  }
});
