import { randomBytes } from "node:crypto";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type ControlSigner, controlSigners, signerFor } from "../../../domain/identity/control-key.ts";
import { enrolmentAnswerMac, isEnrolmentMac } from "../../../domain/identity/enrolment.ts";
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
import {
  type AgentBody,
  AgentBodySchema,
  type AgentMessage,
  ChallengeSchema,
  type Command,
  CommandSchema,
  ControlBodySchema,
  type ControlMessageSchema,
  EnrolledSchema,
  type EnrollRequest,
  type EnrollResponse,
  EnrollResponseSchema,
  GoodbyeSchema,
  type Hello,
  HelloSchema,
  type Opening,
  OpeningSchema,
  type Proof,
  type Sealed,
  SealedSchema,
} from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { MASTER_SECRET } from "./agent-process.ts";

export type ControlMessageInit = MessageInitShape<typeof ControlMessageSchema>;
export type ControlBodyInit = MessageInitShape<typeof ControlBodySchema>;
export type GoodbyeInit = MessageInitShape<typeof GoodbyeSchema>;
export type CommandInit = MessageInitShape<typeof CommandSchema>;

/** Everything that an agent may say in a session, by name. */
export type Heard =
  | { readonly case: "hello"; readonly value: Hello }
  | { readonly case: "opening"; readonly value: Opening }
  | Exclude<AgentBody["body"], { case: undefined }>;

/** What stays of the control plane between connections, and how a test wants it to behave. */
export class ControlState {
  signers: readonly ControlSigner[] = controlSigners(MASTER_SECRET, 1);
  /** Long enough that a busy machine does not make a peer look dead. */
  beatIntervalMs = 2_000;
  /** Enrolled keys by installation. */
  readonly enrolled = new Map<string, EnrollRequest>();
  readonly heard: Heard[] = [];
  /** What the agent did wrong, in words: none in a good test. */
  readonly offences: string[] = [];
  /** A refusal that every Hello, or every enrolment, is answered with. */
  refusal: GoodbyeInit | null = null;
  enrolmentRefusal: GoodbyeInit | null = null;
  readonly #token: string;

  constructor(token: string) {
    this.#token = token;
  }

  /** The answer to an enrolment; null when its MAC is wrong. */
  enrol(request: EnrollRequest): EnrollResponse | null {
    if (!isEnrolmentMac(this.#token, request, request.mac)) return null;
    const result = this.#enrolmentResult(request);
    const bytes = toBinary(EnrollResponseSchema, create(EnrollResponseSchema, { result }));
    return create(EnrollResponseSchema, { result, mac: enrolmentAnswerMac(this.#token, request.mac, bytes) });
  }

  #enrolmentResult(request: EnrollRequest): EnrollResponse["result"] {
    if (this.enrolmentRefusal !== null) {
      return { case: "refused", value: create(GoodbyeSchema, this.enrolmentRefusal) };
    }
    this.enrolled.set(request.installationId, request);
    return { case: "enrolled", value: create(EnrolledSchema, { controlKeys: this.publicKeys() }) };
  }

  publicKeys() {
    return this.signers.map(({ keyId, publicKey }) => ({ keyId, publicKey }));
  }
}

/** The control plane's end of one connection, by the rules of `domain/identity`; and the tools to break them. */
export class ControlSide {
  readonly #state: ControlState;
  readonly #send: (message: ControlMessageInit) => void;
  #helloBytes: Uint8Array = new Uint8Array();
  #hello: Hello = create(HelloSchema);
  #challenge: Uint8Array = new Uint8Array();
  #secretKey: Uint8Array = new Uint8Array();
  #signer: ControlSigner | null = null;
  #keys: SessionKeys | null = null;
  #sent = 0;
  #received = 0;

  constructor(state: ControlState, send: (message: ControlMessageInit) => void) {
    this.#state = state;
    this.#send = send;
  }

  receive({ body }: AgentMessage): void {
    if (body.case === "hello") this.#greet(body.value);
    if (body.case === "proof") this.#welcome(body.value);
    if (body.case === "sealed") this.#open(body.value);
  }

  /** Says something in the session, sealed. */
  say(body: ControlBodyInit["body"]): void {
    this.#send(this.seal(body));
  }

  /** The next sealed frame, to be sent, altered, kept, or sent twice. */
  seal(body: ControlBodyInit["body"], counter = this.#sent + 1): ControlMessageInit {
    const init: ControlBodyInit = body === undefined ? {} : { body };
    const bytes = toBinary(ControlBodySchema, create(ControlBodySchema, init));
    this.#sent = counter;
    const { mac } = sealFrame(this.#sessionKeys().control, counter, bytes);
    return { body: { case: "sealed", value: create(SealedSchema, { counter: BigInt(counter), body: bytes, mac }) } };
  }

  command(init: CommandInit): Command {
    const command = create(CommandSchema, init);
    this.say(this.signedCommand(command));
    return command;
  }

  signedCommand(command: Command, secretKey = this.#currentSigner().secretKey): ControlBodyInit["body"] {
    const { nodeId, installationId, sessionEpoch } = this.#hello;
    const bytes = toBinary(CommandSchema, command);
    const to = { nodeId, installationId, sessionEpoch: Number(sessionEpoch) };
    const signature = sign(secretKey, commandMessage(to, bytes));
    return { case: "command", value: { command: bytes, keyId: this.#currentSigner().keyId, signature } };
  }

  signedGoodbye(init: GoodbyeInit, secretKey?: Uint8Array): ControlMessageInit {
    const { keyId, secretKey: own } = this.#currentSigner();
    const goodbye = toBinary(GoodbyeSchema, create(GoodbyeSchema, init));
    const signature = sign(secretKey ?? own, goodbyeMessage(this.#helloBytes, goodbye));
    return { body: { case: "goodbye", value: { goodbye, keyId, signature } } };
  }

  signedChallenge(secretKey?: Uint8Array): ControlMessageInit {
    const { keyId, secretKey: own } = this.#currentSigner();
    const message = challengeMessage(handshakeTranscript(this.#helloBytes, this.#challenge));
    const signature = sign(secretKey ?? own, message);
    return { body: { case: "challenge", value: { challenge: this.#challenge, keyId, signature } } };
  }

  #greet(bytes: Uint8Array): void {
    this.#helloBytes = bytes;
    this.#hello = fromBinary(HelloSchema, bytes);
    this.#signer = signerFor(this.#state.signers, this.#hello.controlKeyIds);
    this.#secretKey = randomBytes(32);
    const challenge = create(ChallengeSchema, { ephemeralKey: exchangePublicKey(this.#secretKey) });
    this.#challenge = toBinary(ChallengeSchema, challenge);
    this.#state.heard.push({ case: "hello", value: this.#hello });
    this.#send(this.#state.refusal === null ? this.signedChallenge() : this.signedGoodbye(this.#state.refusal));
  }

  #welcome({ opening, signature }: Proof): void {
    const enrolled = this.#state.enrolled.get(this.#hello.installationId);
    const handshake = handshakeTranscript(this.#helloBytes, this.#challenge);
    const signingKey = enrolled?.signingKey ?? new Uint8Array();
    if (!isSignature(signingKey, proofMessage(handshake, opening), signature)) {
      this.#state.offences.push("proof");
      return;
    }
    this.#keys = sessionKeys(this.#secretKey, this.#hello.ephemeralKey, handshake);
    this.#state.heard.push({ case: "opening", value: fromBinary(OpeningSchema, opening) });
    const { beatIntervalMs } = this.#state;
    this.say({
      case: "welcome",
      value: { protocolVersion: 2, beatIntervalMs, serverTimeMs: 0n, controlKeys: this.#state.publicKeys() },
    });
  }

  #open({ counter, body, mac }: Sealed): void {
    const problem = frameProblem(this.#sessionKeys().agent, this.#received, { counter: Number(counter), body, mac });
    this.#received += 1;
    if (problem !== null) {
      this.#state.offences.push(problem);
      return;
    }
    const said = fromBinary(AgentBodySchema, body).body;
    if (said.case !== undefined) this.#state.heard.push(said);
  }

  #sessionKeys(): SessionKeys {
    if (this.#keys === null) throw new Error("There is no session.");
    return this.#keys;
  }

  #currentSigner(): ControlSigner {
    if (this.#signer === null) throw new Error("There was no Hello.");
    return this.#signer;
  }
}
