import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { until } from "../../dev/ready.ts";
import { keyFingerprint } from "../../domain/identity/fingerprint.ts";
import { sealFrame } from "../../domain/identity/frame-seal.ts";
import { sign, signingPublicKey } from "../../domain/identity/signature.ts";
import {
  AgentBodySchema,
  type AgentMessage,
  AgentMessageSchema,
  CommandSchema,
  CommandType,
  ControlBodySchema,
  ControlKeySchema,
  type ControlMessage,
  ControlMessageSchema,
  EnrolledSchema,
  EnrollResponseSchema,
  GoodbyeSchema,
  ProofSchema,
  SealedSchema,
  SignedChallengeSchema,
  SignedCommandSchema,
  SignedGoodbyeSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { controlMessage, HostileBridge, PING, sendUp, type TappedSession } from "../../sandbox/hostile-bridge.ts";
import { hostOf, requestNode, startWalk, untilSagaEnded, untilState, type Walk } from "./walk.ts";

const NAMED_MS = 30_000;
/** Its time to live, the minute's grace in which an acknowledgement may still come, and what the alarm may take. */
const EXPIRED_MS = 90_000;
const THIEF = randomBytes(32);

describe("a hostile bridge", () => {
  let walk: Walk;
  let bridge: HostileBridge;
  let victim: string;
  let bystander: string;

  beforeAll(async () => {
    walk = await startWalk({
      bridgeTo: async (edgeUrl) => {
        bridge = await HostileBridge.start(edgeUrl);
        return bridge.url;
      },
    });
    [victim, bystander] = await Promise.all([healthyNode(), healthyNode()]);
  });
  afterEach(() => {
    bridge.tampering = {};
  });
  afterAll(async () => {
    bridge?.stop();
    await walk?.stop();
  });

  it("that swaps the keys of an enrolment is refused, and the agent enrols directly", async () => {
    const thief = signingPublicKey(THIEF);
    bridge.tampering = { enrolment: (request) => ({ ...request, signingKey: thief }) };
    const nodeId = await healthyNode();
    expect(bridge.refusedEnrolments.at(-1)?.status).toBe(401);
    expect(bridge.refusedEnrolments.at(-1)?.body).toContain("agent_unauthenticated");
    const enrolled = (await walk.stack.api.events(nodeId)).filter(({ kind }) => kind === "agent_enrolled");
    expect(enrolled).toHaveLength(1);
    expect(enrolled[0]?.body.key_fingerprint).toMatch(/^[0-9a-f]{16}$/);
    expect(enrolled[0]?.body.key_fingerprint).not.toBe(keyFingerprint(Buffer.from(thief).toString("hex")));
  });

  it("that answers an enrolment itself is not believed, and is named", async () => {
    bridge.tampering = {
      enrolled: async () => {
        const controlKey = create(ControlKeySchema, { keyId: "control-9", publicKey: signingPublicKey(THIEF) });
        const result = { case: "enrolled", value: create(EnrolledSchema, { controlKeys: [controlKey] }) } as const;
        return create(EnrollResponseSchema, { result, mac: randomBytes(32) });
      },
    };
    await untilReported(await healthyNode(), "enrolment_forged");
  });

  it("that turns an agent away for good by a refusal of its own is not believed, and is named", async () => {
    const goodbye = toBinary(GoodbyeSchema, create(GoodbyeSchema, { code: "agent_revoked", message: "go away" }));
    const value = create(SignedGoodbyeSchema, { goodbye, keyId: "control-1", signature: randomBytes(64) });
    const forged = create(ControlMessageSchema, { body: { case: "goodbye", value } });
    bridge.tampering = { down: (message) => (message.body.case === "challenge" ? [forged] : [message]) };
    await restartAgent(victim);
    await untilReported(victim, "goodbye_forged");
  });

  it("that answers the Hello with a challenge of its own is not believed, and is named", async () => {
    bridge.tampering = {
      down: (message) => {
        if (message.body.case !== "challenge") return [message];
        const { challenge, keyId } = message.body.value;
        const value = create(SignedChallengeSchema, { challenge, keyId, signature: randomBytes(64) });
        return [create(ControlMessageSchema, { body: { case: "challenge", value } })];
      },
    };
    await restartAgent(victim);
    await untilReported(victim, "challenge_forged");
  });

  it("that has the control plane refuse the agent, by a proof of its own, is left for the direct way, and named", async () => {
    bridge.tampering = {
      up: (message) => {
        if (message.body.case !== "proof") return [message];
        const value = create(ProofSchema, { opening: message.body.value.opening, signature: randomBytes(64) });
        return [create(AgentMessageSchema, { body: { case: "proof", value } })];
      },
    };
    await restartAgent(victim);
    await untilReported(victim, "proof_invalid");
  });

  it("that has the control plane end a session, by a frame of its own, is left for the direct way, and named", async () => {
    const session = await backOnBridge(victim);
    const [hello] = session.fromAgent;
    if (hello === undefined) throw new Error("The session did not begin with a Hello.");
    session.toEdge(hello);
    await untilRefused(victim, "malformed_frame");
    await untilReported(victim, "malformed_frame");
  });

  it("that knocks with a ticket, a Hello and a Proof that it has seen opens no session", async () => {
    const session = await backOnBridge(victim);
    const [hello, proof] = session.fromAgent;
    if (hello === undefined || proof === undefined) throw new Error("The session did not begin with Hello and Proof.");
    const edge = bridge.dial(victim, session.headers);
    const answers: ControlMessage[] = [];
    edge.on("message", (data, isBinary) => answers.push(controlMessage(data, isBinary)));
    await once(edge, "open");
    sendUp(edge, hello);
    sendUp(edge, proof);
    await once(edge, "close");
    expect(answers.map(({ body }) => body.case)).not.toContain("sealed");
    await untilRefused(victim, "proof_invalid");
    expect((await walk.stack.api.node(victim)).state).toBe("healthy");
    expect(session.isOpen()).toBe(true);
  });

  it("that answers for another node is not let in", async () => {
    const session = await backOnBridge(victim);
    const edge = bridge.dial(bystander, session.headers);
    const [, response] = await once(edge, "unexpected-response");
    expect(response.statusCode).toBe(401);
  });

  it("that repeats a frame is refused, and named", async () => {
    await withTamperedReport(victim, (message) => [message, message]);
    await untilRefused(victim, "frame_replayed");
  });

  it("that changes the order of frames is refused, and named", async () => {
    const held: AgentMessage[] = [];
    await withTamperedReport(victim, (message) => {
      held.push(message);
      return held.length === 2 ? held.toReversed() : [];
    });
    await untilRefused(victim, "frame_out_of_order");
  });

  it("that alters a frame is refused, and named", async () => {
    await withTamperedReport(victim, (message) => [altered(message)]);
    await untilRefused(victim, "frame_forged");
  });

  it("that passes one node's report on as another's is refused, and named", async () => {
    const target = await backOnBridge(bystander);
    await withTamperedReport(victim, (message) => {
      target.toEdge(message);
      return [message];
    });
    await untilRefused(bystander, "frame_forged");
  });

  it("that makes up an UPGRADE is refused by the agent, and named", async () => {
    const session = await backOnBridge(victim);
    session.toAgent(forgedUpgrade());
    await untilReported(victim, "frame_forged");
    expect(session.fromAgent.flatMap(commandIdOf)).not.toContain("forged");
    expect((await walk.stack.api.node(victim)).state).toBe("healthy");
  });

  it("that repeats a command is refused by the agent, and named", async () => {
    const session = await backOnBridge(victim);
    bridge.tampering = { down: (message, at) => (at === session ? [message, message] : [message]) };
    await walk.stack.api.sendCommand(victim, "START");
    await untilReported(victim, "frame_replayed");
  });

  it("can fake liveness, and no more: what is asked of the dead agent expires", async () => {
    const session = await backOnBridge(bystander);
    const host = await hostOf(walk.stack, bystander);
    bridge.keepsOpen = true;
    await walk.stack.hostRunner.signalAgent(host, "SIGKILL");
    const beats = setInterval(() => session.toEdge(PING), 1_000);
    try {
      const command = await walk.stack.api.sendCommand(bystander, "RESTART", 2);
      const end = await until(
        "the command to end",
        async () => {
          const { state } = await walk.stack.api.command(bystander, command);
          return ["queued", "sent"].includes(state) ? null : state;
        },
        { timeoutMs: EXPIRED_MS, everyMs: 500 },
      );
      expect(end).toBe("expired");
      expect((await walk.stack.api.node(bystander)).state).toBe("healthy");
    } finally {
      clearInterval(beats);
      bridge.keepsOpen = false;
    }
  });

  async function healthyNode(): Promise<string> {
    const nodeId = await requestNode(walk.stack);
    expect((await untilSagaEnded(walk.stack, nodeId, "provision-node")).status).toBe("succeeded");
    await untilState(walk.stack, nodeId, ["healthy"]);
    return nodeId;
  }

  async function restartAgent(nodeId: string): Promise<void> {
    const host = await hostOf(walk.stack, nodeId);
    await walk.stack.hostRunner.signalAgent(host, "SIGKILL");
    await walk.stack.hostRunner.startAgent(host);
  }

  /** A new agent tries the bridge first. Answers its session once it is welcomed. */
  async function backOnBridge(nodeId: string): Promise<TappedSession> {
    const known = bridge.sessions.length;
    await restartAgent(nodeId);
    return until(
      `${nodeId} to have a session through the bridge`,
      async () => {
        const session = bridge.sessions.slice(known).find((candidate) => candidate.nodeId === nodeId);
        return session?.fromEdge.some(({ body }) => body.case === "sealed") === true ? session : null;
      },
      { timeoutMs: NAMED_MS },
    );
  }

  /** Has the agent report on a command, and tampers with every sealed frame of it until the session ends. */
  async function withTamperedReport(nodeId: string, tamper: (message: AgentMessage) => readonly AgentMessage[]) {
    const session = await backOnBridge(nodeId);
    bridge.tampering = {
      up: (message, at) => (at === session && message.body.case === "sealed" ? tamper(message) : [message]),
    };
    await walk.stack.api.sendCommand(nodeId, "START");
  }

  function untilReported(nodeId: string, code: string): Promise<unknown> {
    return untilEvent(nodeId, "tampering_reported", code);
  }

  function untilRefused(nodeId: string, code: string): Promise<unknown> {
    return untilEvent(nodeId, "agent_refused", code);
  }

  function untilEvent(nodeId: string, kind: string, code: string): Promise<unknown> {
    return until(
      `${kind} with ${code}`,
      async () => {
        const events = await walk.stack.api.events(nodeId);
        return events.find((event) => event.kind === kind && event.body.code === code) ?? null;
      },
      { timeoutMs: NAMED_MS, everyMs: 250 },
    );
  }
});

/** An UPGRADE as good as a thief can make it: without the session's key, and signed by a key of its own. */
function forgedUpgrade(): ControlMessage {
  const command = toBinary(
    CommandSchema,
    create(CommandSchema, { id: "forged", type: CommandType.UPGRADE, remainingTtlMs: 60_000n }),
  );
  const signed = create(SignedCommandSchema, { command, keyId: "control-1", signature: sign(THIEF, command) });
  const body = toBinary(ControlBodySchema, create(ControlBodySchema, { body: { case: "command", value: signed } }));
  const { counter, mac } = sealFrame(THIEF, 2, body);
  const value = create(SealedSchema, { counter: BigInt(counter), body, mac });
  return create(ControlMessageSchema, { body: { case: "sealed", value } });
}

/** The command that the agent speaks of, if it speaks of one. */
function commandIdOf({ body }: AgentMessage): string[] {
  if (body.case !== "sealed") return [];
  const said = fromBinary(AgentBodySchema, body.value.body).body;
  return said.value !== undefined && "commandId" in said.value ? [said.value.commandId] : [];
}

/** The same frame with its last byte another. */
function altered(message: AgentMessage): AgentMessage {
  if (message.body.case !== "sealed") return message;
  const body = message.body.value.body.map((byte, index, { length }) => (index === length - 1 ? byte ^ 1 : byte));
  const value = create(SealedSchema, { ...message.body.value, body });
  return create(AgentMessageSchema, { body: { case: "sealed", value } });
}
