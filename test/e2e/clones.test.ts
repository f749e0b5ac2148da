import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { requireNoProcesses } from "../../dev/leftovers.ts";
import { type Stack, startStack } from "../../dev/stack.ts";
import { StolenState } from "./clones.ts";
import { hostOf, requestNode, untilSagaEnded, untilState } from "./walk.ts";

/** A refused clone knocks again after a minute, and so does an original that a clone keeps out. */
const BACK_MS = 120_000;
const SOON_MS = 30_000;
const COMMAND_MS = 20_000;

describe("an agent whose state directory was copied", () => {
  const dataDir = mkdtempSync(join(tmpdir(), "orrery-e2e-clones-"));
  const copies: StolenState[] = [];
  let stack: Stack;
  let nodeId: string;
  let hostId: string;
  let host: string;

  beforeAll(async () => {
    stack = await startStack({ repoDir: join(import.meta.dirname, "../.."), dataDir, watch: false, cronEveryMs: null });
    nodeId = await requestNode(stack);
    expect((await untilSagaEnded(stack, nodeId, "provision-node")).status).toBe("succeeded");
    await untilState(stack, nodeId, ["healthy"]);
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
    const connections = await connectionsSoFar();
    const clone = steal();
    clone.start();
    await expect.poll(refusals, { timeout: SOON_MS }).toContain("agent_conflict");
    expect(clone.isRunning).toBe(true);
    expect(await connectionsSoFar()).toBe(connections);
    await expectObedience();
  });

  it("comes back by itself when its state was restored from an old backup", async () => {
    const backup = steal();
    for (let restarts = 0; restarts < 3; restarts += 1) {
      const before = await connectionsSoFar();
      await stack.hostRunner.signalAgent(hostId, "SIGKILL");
      await stack.hostRunner.startAgent(hostId);
      await expect.poll(connectionsSoFar, { timeout: SOON_MS }).toBeGreaterThan(before);
    }
    const before = await connectionsSoFar();
    await stack.hostRunner.signalAgent(hostId, "SIGKILL");
    backup.restoreTo(host);
    await stack.hostRunner.startAgent(hostId);
    await expect.poll(connectionsSoFar, { timeout: SOON_MS }).toBeGreaterThan(before);
    await expectObedience();
  });

  it("is kept out only as long as a copy that came while it hung is there, and then comes back by itself", async () => {
    const clone = steal();
    const before = await connectionsSoFar();
    const logged = agentLog().length;
    await stack.hostRunner.signalAgent(hostId, "SIGSTOP");
    clone.start();
    // The object has asked the session that hangs, and nobody has answered.
    await expect.poll(connectionsSoFar, { timeout: SOON_MS }).toBe(before + 1);
    await stack.hostRunner.signalAgent(hostId, "SIGCONT");
    await expect.poll(() => agentLog().slice(logged), { timeout: SOON_MS }).toContain("agent_conflict");
    await clone.stop();
    await expect.poll(connectionsSoFar, { timeout: BACK_MS }).toBeGreaterThan(before + 1);
    await expectObedience();
    expect((await events()).filter(({ body }) => body.to === "down")).toEqual([]);
  });

  function steal(): StolenState {
    const copy = new StolenState(host);
    copies.push(copy);
    return copy;
  }

  function agentLog(): string {
    return readFileSync(join(host, "agent.log"), "utf8");
  }

  function events() {
    return stack.api.events(nodeId);
  }

  async function refusals(): Promise<readonly unknown[]> {
    return (await events()).filter(({ kind }) => kind === "agent_refused").map(({ body }) => body.code);
  }

  async function connectionsSoFar(): Promise<number> {
    return (await events()).filter(({ kind }) => kind === "agent_connected").length;
  }

  /** The host's own agent holds the session: only it has a chain node to start. */
  async function expectObedience(): Promise<void> {
    const command = await stack.api.sendCommand(nodeId, "START");
    const stateOf = async () => (await stack.api.command(nodeId, command)).state;
    await expect.poll(stateOf, { timeout: COMMAND_MS }).toBe("completed");
    expect((await stack.api.node(nodeId)).state).toBe("healthy");
  }
});
