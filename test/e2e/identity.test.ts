import { randomBytes, randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { until } from "../../dev/ready.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import type { EnrolmentClaim } from "../../domain/identity/enrolment.ts";
import { keyFingerprint } from "../../domain/identity/fingerprint.ts";
import { createLog } from "../../ops-agent/log.ts";
import { enrolmentRequest, enrolmentResult } from "../../ops-agent/session/enrol.ts";
import { AgentIdentity } from "../../ops-agent/state/identity.ts";
import { readToken } from "../../ops-agent/state/token.ts";
import type { EnrollRequest, EnrollResponse } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { HostileBridge, type TappedSession } from "../../sandbox/hostile-bridge.ts";
import { StolenState } from "./clones.ts";
import { hostOf, requestNode, startWalk, untilSagaEnded, untilState, type Walk } from "./walk.ts";
import { WatchedNode } from "./watched-node.ts";

const SOON_MS = 30_000;
const { conflictRetryMs, holderAnswerMs } = DEFAULTS.agent;

describe("an installation's identity on a whole deployment", () => {
  let walk: Walk;
  let bridge: HostileBridge;
  let node: WatchedNode;
  const strangers: StolenState[] = [];

  beforeAll(async () => {
    walk = await startWalk({
      bridgeTo: async (edgeUrl) => {
        bridge = await HostileBridge.start(edgeUrl);
        return bridge.url;
      },
    });
    node = await healthyNode();
  });
  afterEach(async () => {
    bridge.tampering = {};
    bridge.keepsOpen = false;
    for (const stranger of strangers.splice(0)) await stranger.destroy();
  });
  afterAll(async () => {
    bridge?.stop();
    await walk?.stop();
  });

  it("is bound once though the answer was lost: the agent asks again with the same keys", async () => {
    const asked: EnrollRequest[] = [];
    bridge.tampering = {
      enrolled: async (request, ask) => {
        asked.push(request);
        const answer = await ask();
        if (asked.length === 1) throw new Error("the answer is lost");
        return answer;
      },
    };
    const enrolled = await healthyNode();
    expect(asked).toHaveLength(2);
    expect(asked[1]).toEqual(asked[0]);
    expect(await enrolled.enrolledKeys()).toEqual([fingerprint(asked[0]?.signingKey)]);
    expect(await enrolled.refusals()).toEqual([]);
    await enrolled.expectObedience();
  });

  it("is bound once by two enrolments at the same moment, and both succeed", async () => {
    const answers: EnrollResponse[] = [];
    bridge.tampering = {
      enrolled: async (_request, ask) => {
        const [one, other] = await Promise.all([ask(), ask()]);
        answers.push(one, other);
        return one;
      },
    };
    const enrolled = await healthyNode();
    expect(answers.map(({ result }) => result.case)).toEqual(["enrolled", "enrolled"]);
    expect(answers[1]).toEqual(answers[0]);
    expect(await enrolled.enrolledKeys()).toHaveLength(1);
    expect(await enrolled.refusals()).toEqual([]);
    await enrolled.expectObedience();
  });

  it("cannot be taken with the same token by other keys, while its own claim is answered as often as it is made", async () => {
    const connections = await node.connections();
    const own = await ownClaim();
    const other = { installationId: randomUUID(), signingKey: randomBytes(32), sealingKey: randomBytes(32) };
    const claims = [{ ...own, ...other }, { ...own, sealingKey: other.sealingKey }, own];
    const results = await Promise.all(claims.map(enrol));
    expect(results).toMatchObject([
      { case: "refused", value: { code: "agent_conflict", reconnectAfterMs: conflictRetryMs } },
      { case: "refused", value: { code: "agent_conflict", reconnectAfterMs: conflictRetryMs } },
      { case: "enrolled" },
    ]);
    await expect.poll(() => node.refusals(), { timeout: SOON_MS }).toContain("agent_conflict");
    expect(await node.enrolledKeys()).toEqual([fingerprint(own.signingKey)]);
    expect(await node.connections()).toBe(connections);
    await node.expectObedience();
  });

  it("cannot be taken by an agent that has the token and no state, which keeps knocking", async () => {
    const connections = await node.connections();
    const stranger = new StolenState(await hostDir());
    strangers.push(stranger);
    rmSync(join(stranger.directory, "state"), { recursive: true });
    stranger.start();
    await expect.poll(() => stranger.output, { timeout: SOON_MS }).toContain("agent_conflict");
    expect(stranger.isRunning).toBe(true);
    expect(await node.connections()).toBe(connections);
    await node.expectObedience();
  });

  it("gets its session back where the old one is half open, once that has been asked and stayed silent", async () => {
    const halfOpen = sessions().at(-1);
    expect(halfOpen?.isOpen()).toBe(true);
    const known = sessions().length;
    bridge.keepsOpen = true;
    const hostId = await hostOf(walk.stack, node.id);
    await walk.stack.hostRunner.signalAgent(hostId, "SIGKILL");
    await walk.stack.hostRunner.startAgent(hostId);
    const session = await untilSession(known, ({ fromAgent }) => fromAgent.some(({ body }) => body.case === "proof"));
    const provedAt = performance.now();
    await untilSession(known, ({ fromEdge }) => fromEdge.some(({ body }) => body.case === "sealed"));
    const waitedMs = performance.now() - provedAt;
    expect(waitedMs).toBeGreaterThan(holderAnswerMs - 1_000);
    expect(waitedMs).toBeLessThan(holderAnswerMs + 3_000);
    await expect.poll(() => halfOpen?.isOpen(), { timeout: SOON_MS }).toBe(false);
    expect(sessions().slice(known)).toEqual([session]);
    await node.expectObedience();
  });

  async function healthyNode(): Promise<WatchedNode> {
    const nodeId = await requestNode(walk.stack);
    expect((await untilSagaEnded(walk.stack, nodeId, "provision-node")).status).toBe("succeeded");
    await untilState(walk.stack, nodeId, ["healthy"]);
    return new WatchedNode(walk.stack.api, nodeId);
  }

  async function hostDir(): Promise<string> {
    return walk.hostDir(await hostOf(walk.stack, node.id));
  }

  async function nodeToken(): Promise<string> {
    return readToken(join(await hostDir(), "node-token"));
  }

  /** What the node's own agent once enrolled with. */
  async function ownClaim(): Promise<EnrolmentClaim> {
    const make = { generation: 1, newId: randomUUID, newKey: () => randomBytes(32) };
    const identity = new AgentIdentity(join(await hostDir(), "state"), make, createLog("silent", {}));
    const { installationId, signingKey, sealingKey } = identity;
    return { nodeId: node.id, generation: 1, installationId, signingKey, sealingKey };
  }

  /** Asks the edge as whoever has the token can, and believes the answer only with its MAC. */
  async function enrol(claim: EnrolmentClaim) {
    const token = await nodeToken();
    const request = enrolmentRequest(token, claim);
    return enrolmentResult(token, request, await bridge.askEdge(request));
  }

  function sessions(): readonly TappedSession[] {
    return bridge.sessions.filter(({ nodeId }) => nodeId === node.id);
  }

  function untilSession(known: number, condition: (session: TappedSession) => boolean): Promise<TappedSession> {
    return until("the agent to come back", async () => sessions().slice(known).find(condition) ?? null, {
      timeoutMs: SOON_MS,
      everyMs: 20,
    });
  }
});

function fingerprint(key: Uint8Array = new Uint8Array()): string {
  return keyFingerprint(Buffer.from(key).toString("hex"));
}
