import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { controlSigners } from "../../../domain/identity/control-key.ts";
import { frameProblem, sealFrame } from "../../../domain/identity/frame-seal.ts";
import {
  challengeMessage,
  commandMessage,
  exchangePublicKey,
  goodbyeMessage,
  handshakeTranscript,
  proofMessage,
  type SessionKeys,
  sessionKeys,
} from "../../../domain/identity/handshake.ts";
import { isSignature, sign } from "../../../domain/identity/signature.ts";
import type { NodeObject } from "../../../durable-objects/node/object.ts";
import {
  AgentBodySchema,
  AgentMessageSchema,
  ChallengeSchema,
  type Command,
  CommandSchema,
  type ControlBody,
  ControlBodySchema,
  ControlMessageSchema,
  type Goodbye,
  GoodbyeSchema,
  type Hello,
  HelloSchema,
  type Opening,
  OpeningSchema,
  type Sealed,
  type SignedChallenge,
  StatusSchema,
  SyncStatus,
} from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { TEST_SECRETS } from "../bindings.ts";
import { TestIdentity } from "./test-identity.ts";

type Init<T> = Exclude<T, { $typeName: string }>;
type Body<T> = T extends { body?: infer B } ? NonNullable<B> : never;
type MessageBody = Body<Init<MessageInitShape<typeof AgentMessageSchema>>>;
type AgentBodyInit = Body<Init<MessageInitShape<typeof AgentBodySchema>>>;
type Fields<T> = Partial<Omit<T, "$typeName" | "$unknown">>;

/** What the agent has believed: sealed bodies opened, commands and refusals checked by their signature. */
type Heard =
  | Exclude<ControlBody["body"], { case: "command" | "goodbye" | undefined }>
  | { readonly case: "command"; readonly value: Command }
  | { readonly case: "goodbye"; readonly value: Goodbye };
type Kind = Heard["case"];

export type SessionInit = Fields<Hello> &
  Fields<Opening> & {
    readonly identity?: TestIdentity;
    /** What it shows at the door in place of its own signature; hex. */
    readonly signature?: string;
  };

export const SYNCED = create(StatusSchema, { syncStatus: SyncStatus.SYNCED });

/** The agent's end of a session, frame by frame. It proves itself when it is challenged, and answers no Probe unasked. */
export class TestAgent {
  readonly socket: WebSocket;
  readonly identity: TestIdentity;
  readonly nodeId: string;
  readonly frames: { readonly body: Heard }[] = [];
  readonly texts: string[] = [];
  /** Whatever it was told that it must not believe. */
  readonly problems: string[] = [];
  /** Whatever it sent, as bytes. */
  readonly messages: Uint8Array[] = [];
  closed: { code: number; reason: string } | null = null;
  challenge: SignedChallenge | null = null;
  /** What it sends in answer to a challenge; null leaves the challenge unanswered. */
  opening: MessageInitShape<typeof OpeningSchema> | null = {};
  keys: SessionKeys | null = null;
  sent = 0;
  received = 0;
  helloBytes = new Uint8Array();
  readonly #ephemeralSecret = crypto.getRandomValues(new Uint8Array(32));
  #introduction: Hello = create(HelloSchema);
  #trusted = controlSigners(TEST_SECRETS.MASTER_SECRET, 3).concat(controlSigners(TEST_SECRETS.MASTER_SECRET, 1));

  constructor(socket: WebSocket, nodeId: string, identity: TestIdentity) {
    this.socket = socket;
    this.nodeId = nodeId;
    this.identity = identity;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => {
      if (typeof data === "string") this.texts.push(data);
      const problem = data instanceof ArrayBuffer ? this.#hear(new Uint8Array(data)) : null;
      if (problem !== null) this.problems.push(problem);
    });
    socket.addEventListener("close", ({ code, reason }) => {
      this.closed = { code, reason };
    });
    socket.accept();
  }

  /** Connects with a ticket for this installation and epoch; nothing is said yet. */
  static async dial(stub: DurableObjectStub<NodeObject>, epoch = 1, init: SessionInit = {}): Promise<TestAgent> {
    const { identity = new TestIdentity(), generation = 1, installationId = identity.installationId } = init;
    const subject = { nodeId: nodeIdOf(stub), generation, installationId, sessionEpoch: epoch };
    const { signature = identity.knock(subject) } = init;
    const response = await stub.fetch("http://orrery.test/session", {
      headers: {
        Upgrade: "websocket",
        "Orrery-Generation": String(generation),
        "Orrery-Installation": installationId,
        "Orrery-Epoch": String(epoch),
        "Orrery-Signature": signature,
      },
    });
    if (response.webSocket === null) throw new Error(`no socket: ${response.status} ${await response.text()}`);
    return new TestAgent(response.webSocket, nodeIdOf(stub), identity);
  }

  /** Enrols, dials and greets. */
  static async knock(stub: DurableObjectStub<NodeObject>, epoch: number, init: SessionInit = {}): Promise<TestAgent> {
    const { identity = new TestIdentity(), generation = 1 } = init;
    await stub.enroll(identity.claim(nodeIdOf(stub), generation));
    const agent = await TestAgent.dial(stub, epoch, init);
    agent.hello(epoch, init);
    return agent;
  }

  /** The same, and waits for the welcome. */
  static async join(stub: DurableObjectStub<NodeObject>, epoch: number, init: SessionInit = {}): Promise<TestAgent> {
    const agent = await TestAgent.knock(stub, epoch, init);
    await agent.until(() => agent.last("welcome") !== undefined);
    return agent;
  }

  hello(epoch: number, init: SessionInit = {}): void {
    const { identity, signature, agentVersion = "0.1.0", runningCommandIds = [], status, ...hello } = init;
    this.opening = { agentVersion, runningCommandIds, ...(status === undefined ? {} : { status }) };
    this.#introduction = create(HelloSchema, {
      protocolVersion: 2,
      nodeId: this.nodeId,
      installationId: this.identity.installationId,
      generation: 1,
      sessionEpoch: BigInt(epoch),
      ephemeralKey: exchangePublicKey(this.#ephemeralSecret),
      controlKeyIds: ["control-1"],
      ...hello,
    });
    this.helloBytes = toBinary(HelloSchema, this.#introduction);
    this.sendMessage({ case: "hello", value: this.helloBytes });
  }

  /** Signs the session that it was challenged for. */
  prove(identity: TestIdentity = this.identity): void {
    const opening = toBinary(OpeningSchema, create(OpeningSchema, this.opening ?? {}));
    const signature = sign(identity.signingSecret, proofMessage(this.#handshake(), opening));
    this.sendMessage({ case: "proof", value: { opening, signature } });
  }

  /** A frame as it is, sealed or not. */
  sendMessage(body: MessageBody): void {
    const bytes = toBinary(AgentMessageSchema, create(AgentMessageSchema, { body }));
    this.messages.push(bytes);
    this.socket.send(bytes);
  }

  send(body: AgentBodyInit): void {
    this.sendMessage({
      case: "sealed",
      value: this.seal(toBinary(AgentBodySchema, create(AgentBodySchema, { body }))),
    });
  }

  /** The next frame of this session. */
  seal(body: Uint8Array): Sealed {
    if (this.keys === null) throw new Error("there is no session");
    this.sent += 1;
    const { counter, mac } = sealFrame(this.keys.agent, this.sent, body);
    return { $typeName: "orrery.agent.v1.Sealed", counter: BigInt(counter), body, mac };
  }

  status(syncStatus: 1 | 2 | 3 | 4, endpoints: Record<string, string> = {}): void {
    this.send({ case: "status", value: { syncStatus, endpoints } });
  }

  beat(...runningCommandIds: string[]): void {
    this.send({ case: "beat", value: { runningCommandIds } });
  }

  /** Answers the latest question, or an earlier one. */
  alive(question: number = this.last("probe")?.value.question ?? 0): void {
    this.send({ case: "alive", value: { question } });
  }

  acknowledge(commandId: string): void {
    this.send({ case: "commandAcknowledged", value: { commandId } });
  }

  complete(commandId: string, metadata: Record<string, string> = {}): void {
    this.send({ case: "commandCompleted", value: { commandId, metadata } });
  }

  fail(commandId: string, kind: 1 | 2 | 3 | 4 | 5, message: string, code = ""): void {
    this.send({ case: "commandFailed", value: { commandId, kind, code, message } });
  }

  /** A beat with nothing to say, answered without waking the object. */
  async ping(): Promise<void> {
    const before = this.texts.length;
    this.socket.send("ping");
    await this.until(() => this.texts.length > before);
  }

  /** Hangs up, and waits until the node knows. */
  async leave(): Promise<void> {
    this.socket.close(1000, "bye");
    await this.until(() => this.closed !== null);
  }

  /** Waits until every frame sent before has been handled: what arrives in order is answered in order. */
  async until(condition: () => boolean): Promise<void> {
    const deadline = Date.now() + 5_000;
    while (!condition()) {
      if (Date.now() > deadline) {
        const heard = `heard ${this.kinds().join(", ")}, problems ${this.problems.join(", ")}`;
        throw new Error(`nothing came; ${heard}, closed ${this.closed?.reason}`);
      }
      await scheduler.wait(2);
    }
  }

  /** How the connection ended, and whether the agent may come back. */
  async goodbye() {
    await this.until(() => this.closed !== null);
    const value = this.last("goodbye")?.value;
    return { code: value?.code, reconnects: value?.reconnectAfterMs !== undefined };
  }

  kinds(): string[] {
    return this.frames.map(({ body }) => body.case);
  }

  /** Ids of the commands delivered, in order, repetitions included. */
  delivered(): string[] {
    return this.frames.flatMap(({ body }) => (body.case === "command" ? [body.value.id] : []));
  }

  last<C extends Kind>(kind: C): Extract<Heard, { case: C }> | undefined {
    return this.frames.map(({ body }) => body).findLast((body) => isKind(body, kind));
  }

  /** Believes what may be believed; answers what is wrong with the rest. */
  #hear(bytes: Uint8Array): string | null {
    const { body } = fromBinary(ControlMessageSchema, bytes);
    switch (body.case) {
      case "challenge":
        return this.#challenged(body.value);
      case "sealed":
        return this.#open(body.value);
      case "goodbye": {
        const { goodbye, keyId, signature } = body.value;
        if (!this.#isSigned(keyId, goodbyeMessage(this.helloBytes, goodbye), signature)) return "goodbye_forged";
        return this.#believe({ case: "goodbye", value: fromBinary(GoodbyeSchema, goodbye) });
      }
      default:
        return `unexpected ${body.case}`;
    }
  }

  #challenged(challenge: SignedChallenge): string | null {
    this.challenge = challenge;
    const handshake = this.#handshake();
    if (!this.#isSigned(challenge.keyId, challengeMessage(handshake), challenge.signature)) return "challenge_forged";
    const { ephemeralKey } = fromBinary(ChallengeSchema, challenge.challenge);
    this.keys = sessionKeys(this.#ephemeralSecret, ephemeralKey, handshake);
    if (this.opening !== null) this.prove();
    return null;
  }

  #open(sealed: Sealed): string | null {
    if (this.keys === null) return "sealed too early";
    const frame = { counter: Number(sealed.counter), body: sealed.body, mac: sealed.mac };
    const problem = frameProblem(this.keys.control, this.received, frame);
    if (problem !== null) return problem;
    this.received += 1;
    const { body } = fromBinary(ControlBodySchema, sealed.body);
    if (body.case === undefined) return "unknown body";
    if (body.case !== "command") return this.#believe(body);
    const { command, keyId, signature } = body.value;
    const { nodeId, installationId, sessionEpoch } = this.#introduction;
    const message = commandMessage({ nodeId, installationId, sessionEpoch: Number(sessionEpoch) }, command);
    if (!this.#isSigned(keyId, message, signature)) return "command_forged";
    return this.#believe({ case: "command", value: fromBinary(CommandSchema, command) });
  }

  #isSigned(keyId: string, message: Uint8Array, signature: Uint8Array): boolean {
    const key = this.#trusted.find((each) => each.keyId === keyId);
    if (key === undefined || !this.#introduction.controlKeyIds.includes(keyId)) return false;
    return isSignature(key.publicKey, message, signature);
  }

  #handshake(): Uint8Array {
    return handshakeTranscript(this.helloBytes, this.challenge?.challenge ?? new Uint8Array());
  }

  #believe(body: Heard): null {
    this.frames.push({ body });
    return null;
  }
}

function nodeIdOf(stub: DurableObjectStub<NodeObject>): string {
  const nodeId = stub.name?.split("/").at(-1);
  if (nodeId === undefined) throw new Error("the stub has no name");
  return nodeId;
}

function isKind<C extends Kind>(body: Heard, kind: C): body is Extract<Heard, { case: C }> {
  return body.case === kind;
}
