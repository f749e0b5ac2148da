import { beforeEach, describe, it } from "vitest";
import type { CommandPayload, InjectedKey } from "../../../domain/node/command.ts";
import { TestAgent } from "./test-agent.ts";
import { TestClock } from "./test-clock.ts";
import { muteQueue, refusalOf, TestNode } from "./test-node.ts";

let clock: TestClock;
beforeEach(() => {
  clock = new TestClock();
  muteQueue();
});

/** The same two keys, sealed anew at each call. */
function keys(sealing: number, part: Partial<InjectedKey> = {}): CommandPayload {
  const random = (length: number) => btoa(String.fromCharCode(...new Uint8Array(length).fill(sealing)));
  const facts = { keyType: "ed25519", source: "generated", publicKey: "ab".repeat(32) };
  const key = { ...facts, nonce: random(12), ciphertext: random(48), owner: null, mode: 0o600 };
  return {
    type: "INJECT_KEYS",
    sealedDek: random(92),
    keysMac: random(32),
    keys: [
      { ...key, name: "validator", path: "keys/validator", ...part },
      { ...key, name: "jwt", path: "keys/jwt", owner: "chain", mode: 0o640 },
    ],
  };
}

async function rowOf(node: TestNode): Promise<string> {
  const rows = await node.sql("SELECT * FROM commands");
  return JSON.stringify(rows);
}

describe("a command that brings keys", () => {
  it("carries them as bytes, with where and how they are to be written", async ({ expect }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1);
    await node.stub.enqueueCommand(node.request("c1", keys(7)));
    await agent.until(() => agent.delivered().length === 1);
    expect(agent.last("command")?.value).toMatchObject({
      type: 5,
      payload: {
        case: "injectKeys",
        value: {
          sealedDek: new Uint8Array(92).fill(7),
          keysMac: new Uint8Array(32).fill(7),
          keys: [
            {
              name: "validator",
              keyType: "ed25519",
              publicKey: new Uint8Array(32).fill(0xab),
              nonce: new Uint8Array(12).fill(7),
              owner: "",
              mode: 0o600,
            },
            { name: "jwt", ciphertext: new Uint8Array(48).fill(7), path: "keys/jwt", owner: "chain", mode: 0o640 },
          ],
        },
      },
    });
    expect(agent.problems).toEqual([]);
  });

  it("keeps nothing that was sealed once it has ended, however it ended", async ({ expect }) => {
    const ends: readonly ((node: TestNode, agent: TestAgent) => Promise<unknown>)[] = [
      async (_node, agent) => agent.complete("c1"),
      async (_node, agent) => agent.fail("c1", 1, "no such owner", "key_injection_failed"),
      (node) => node.stub.replaceInstallation(2, null),
      async (node) => {
        await clock.forward(3_600_000);
        await node.ringAlarm();
      },
      (node) => node.stub.forceTransition("failed", "operator", "gone", "key:admin"),
    ];
    for (const end of ends) {
      const node = await TestNode.syncing();
      const agent = await TestAgent.join(node.stub, 1);
      await node.stub.enqueueCommand(node.request("c1", keys(7)));
      await agent.until(() => agent.delivered().length === 1);
      expect(await rowOf(node)).toContain("BwcH");
      await end(node, agent);
      await expect.poll(async () => (await node.stub.command("c1")).endedAt).not.toBeNull();
      const row = await rowOf(node);
      expect(row).not.toContain("BwcH");
      expect(row).toContain("keys/validator");
    }
    const queued = await TestNode.syncing();
    await queued.stub.enqueueCommand(queued.request("c1", keys(7)));
    await queued.stub.cancelCommand("c1", "key:me");
    expect(await rowOf(queued)).not.toContain("BwcH");
  });

  it("is the same when it is asked for again, though sealing gives other bytes, also after it has ended", async ({
    expect,
  }) => {
    const node = await TestNode.syncing();
    const agent = await TestAgent.join(node.stub, 1);
    const first = await node.stub.enqueueCommand(node.request("c1", keys(7)));
    expect(await node.stub.enqueueCommand(node.request("c1", keys(8)))).toEqual(first);
    agent.complete("c1");
    await expect.poll(async () => (await node.stub.command("c1")).state).toBe("completed");
    expect(await node.stub.enqueueCommand(node.request("c1", keys(9)))).toMatchObject({ state: "completed" });
    const elsewhere = node.request("c1", keys(7, { path: "keys/other" }));
    expect(await refusalOf(() => node.stub.enqueueCommand(elsewhere))).toMatchObject({
      code: "idempotency_key_reused",
    });
    expect(await rowOf(node)).not.toMatch(/BwcH|CAgI|CQkJ/);
    expect(agent.delivered()).toEqual(["c1"]);
  });
});
