import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { requireNoProcesses } from "../../dev/leftovers.ts";
import { type Stack, startStack } from "../../dev/stack.ts";
import { StolenState } from "./clones.ts";
import { hostOf, requestNode, untilSagaEnded, untilState } from "./walk.ts";
import { WatchedNode } from "./watched-node.ts";

/** A refused clone knocks again after a minute, and so does an original that a clone keeps out. */
const BACK_MS = 120_000;
const SOON_MS = 30_000;

describe("an agent whose state directory was copied", () => {
  const dataDir = mkdtempSync(join(tmpdir(), "orrery-e2e-clones-"));
  const copies: StolenState[] = [];
  let stack: Stack;
  let node: WatchedNode;
  let hostId: string;
  let host: string;

  beforeAll(async () => {
    stack = await startStack({ repoDir: join(import.meta.dirname, "../.."), dataDir, watch: false, cronEveryMs: null });
    const nodeId = await requestNode(stack);
    expect((await untilSagaEnded(stack, nodeId, "provision-node")).status).toBe("succeeded");
    await untilState(stack, nodeId, ["healthy"]);
    node = new WatchedNode(stack.api, nodeId);
    hostId = await hostOf(stack, nodeId);
    host = join(dataDir, "hosts/hosts", hostId);
  });
  afterEach(async () => {
    for (const copy of copies.splice(0)) await copy.destroy();
  });
  afterAll(async () => {
    await stack?.stop();
    requireNoProcesses(dataDir);
    rmSync(dataDir, { recursive: true, force: true });
  });

  it("goes on undisturbed while the copy is refused and named", async () => {
    const connections = await node.connections();
    const clone = steal();
    clone.start();
    await expect.poll(() => node.refusals(), { timeout: SOON_MS }).toContain("agent_conflict");
    expect(clone.isRunning).toBe(true);
    expect(await node.connections()).toBe(connections);
    await node.expectObedience();
  });

  it("comes back by itself when its state was restored from an old backup", async () => {
    const backup = steal();
    for (let restarts = 0; restarts < 3; restarts += 1) {
      const before = await node.connections();
      await stack.hostRunner.signalAgent(hostId, "SIGKILL");
      await stack.hostRunner.startAgent(hostId);
      await expect.poll(() => node.connections(), { timeout: SOON_MS }).toBeGreaterThan(before);
    }
    const before = await node.connections();
    await stack.hostRunner.signalAgent(hostId, "SIGKILL");
    backup.restoreTo(host);
    await stack.hostRunner.startAgent(hostId);
    await expect.poll(() => node.connections(), { timeout: SOON_MS }).toBeGreaterThan(before);
    await node.expectObedience();
  });

  it("is kept out only as long as a copy that came while it hung is there, and then comes back by itself", async () => {
    const clone = steal();
    const before = await node.connections();
    const logged = agentLog().length;
    await stack.hostRunner.signalAgent(hostId, "SIGSTOP");
    clone.start();
    // The object has asked the session that hangs, and nobody has answered.
    await expect.poll(() => node.connections(), { timeout: SOON_MS }).toBe(before + 1);
    await stack.hostRunner.signalAgent(hostId, "SIGCONT");
    await expect.poll(() => agentLog().slice(logged), { timeout: SOON_MS }).toContain("agent_conflict");
    await clone.stop();
    await expect.poll(() => node.connections(), { timeout: BACK_MS }).toBeGreaterThan(before + 1);
    await node.expectObedience();
  });

  function steal(): StolenState {
    const copy = new StolenState(host);
    copies.push(copy);
    return copy;
  }

  function agentLog(): string {
    return readFileSync(join(host, "agent.log"), "utf8");
  }
});
