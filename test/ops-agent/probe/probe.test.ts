import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { describe, expect, it, onTestFinished } from "vitest";
import { createLog } from "../../../ops-agent/log.ts";
import { Probe } from "../../../ops-agent/probe/probe.ts";
import { SyncStatus } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";

type Answer = "synced" | "syncing" | "broken";

/** A node whose answers follow the list; the last one stays. Looks are counted, so that a test waits for looks, not for time. */
class ScriptedNode {
  looks = 0;
  readonly #answers: readonly Answer[];
  readonly #server: Server;
  readonly #waiting = new Map<number, () => void>();

  constructor(answers: readonly Answer[]) {
    this.#answers = answers;
    this.#server = createServer((_request, response) => {
      const answer = this.#answers[Math.min(this.looks, this.#answers.length - 1)];
      this.looks += 1;
      this.#waiting.get(this.looks)?.();
      response.writeHead(answer === "broken" ? 500 : 200).end(JSON.stringify({ syncing: answer !== "synced" }));
    });
  }

  async port(): Promise<number> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    onTestFinished(() => {
      this.#server.close();
    });
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  async until(looks: number): Promise<void> {
    if (this.looks >= looks) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.set(looks, resolve);
    await promise;
  }
}

/** Everything that the probe told, over so many looks. */
async function told(answers: readonly Answer[], looks: number): Promise<(SyncStatus | undefined)[]> {
  const node = new ScriptedNode(answers);
  const port = await node.port();
  const changes: (SyncStatus | undefined)[] = [];
  const onChange = () => changes.push(probe.status().syncStatus);
  const probe: Probe = new Probe({ everyMs: 1, onChange, log: createLog("silent", {}) });
  onTestFinished(() => probe.stop());
  const check = {
    kind: "http",
    port: "rpc",
    path: "/",
    timeout: 5_000,
    synced: { pointer: "/syncing", equals: false },
  } as const;
  probe.watch({ check, port, endpoints: { rpc: "http://h:1" } });
  // One more look means that the finding of the one before has been taken.
  await node.until(looks + 1);
  expect(probe.status().endpoints).toEqual({ rpc: "http://h:1" });
  return changes;
}

describe("the probe", () => {
  const { UNKNOWN, SYNCING, SYNCED } = SyncStatus;

  it("tells endpoints and each change of the sync status, and nothing in between", async () => {
    expect(await told(["broken", "syncing", "syncing", "synced", "synced", "syncing"], 8)).toEqual([
      UNKNOWN,
      SYNCING,
      SYNCED,
      SYNCING,
    ]);
  });

  it("does not take one or two missed answers for news, but three", async () => {
    expect(await told(["synced", "broken", "broken", "synced", "broken", "synced"], 8)).toEqual([UNKNOWN, SYNCED]);
    expect(await told(["synced", "broken", "broken", "broken"], 6)).toEqual([UNKNOWN, SYNCED, UNKNOWN]);
  });
});
