import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { ControlKey } from "../../domain/identity/control-key.ts";
import type { TicketSubject } from "../../domain/identity/enrolment.ts";
import {
  challengeMessage,
  commandMessage,
  exchangePublicKey,
  goodbyeMessage,
  handshakeTranscript,
  proofMessage,
  type SessionKeys,
  sessionKeys,
} from "../../domain/identity/handshake.ts";
import { isSignature } from "../../domain/identity/signature.ts";
import {
  ChallengeSchema,
  type Command,
  CommandSchema,
  type Goodbye,
  GoodbyeSchema,
  HelloSchema,
  OpeningSchema,
  type SignedChallenge,
  type SignedCommand,
  type SignedGoodbye,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { AgentIdentity } from "../state/identity.ts";
import type { OpeningInit } from "./messages.ts";

export interface HandshakeOptions {
  readonly identity: AgentIdentity;
  /** The control keys that the agent believes at this moment. */
  readonly controlKeys: readonly ControlKey[];
  readonly subject: TicketSubject;
  /** X25519, 32 random bytes, for this session alone; zeroed once the session's keys are made. */
  readonly secretKey: Uint8Array;
}

/** The proof of one session, its keys, and the control key that signs in it. */
export interface Proven {
  readonly opening: Uint8Array;
  readonly signature: Uint8Array;
  readonly keys: SessionKeys;
  readonly controlKey: ControlKey;
}

/** The agent's side of one session's beginning: Hello, then the Proof that answers a signed Challenge, or a signed refusal. */
export class Handshake {
  /** A serialized Hello. */
  readonly hello: Uint8Array;
  readonly #options: HandshakeOptions;

  constructor(options: HandshakeOptions) {
    this.#options = options;
    const { nodeId, generation, installationId, sessionEpoch } = options.subject;
    const hello = create(HelloSchema, {
      protocolVersion: DEFAULTS.agent.protocolVersion,
      nodeId,
      generation,
      installationId,
      sessionEpoch: BigInt(sessionEpoch),
      ephemeralKey: exchangePublicKey(options.secretKey),
      controlKeyIds: options.controlKeys.map(({ keyId }) => keyId),
    });
    this.hello = toBinary(HelloSchema, hello);
  }

  /** @throws challenge_forged unless a control key that the agent believes signed the challenge, for this Hello */
  prove({ challenge, keyId, signature }: SignedChallenge, openingInit: OpeningInit): Proven {
    const { identity, secretKey } = this.#options;
    const handshake = handshakeTranscript(this.hello, challenge);
    const controlKey = this.#signer(keyId, challengeMessage(handshake), signature);
    const peerKey = controlKey === null ? null : decoded(() => fromBinary(ChallengeSchema, challenge).ephemeralKey);
    const keys = peerKey === null ? null : sessionKeys(secretKey, peerKey, handshake);
    if (controlKey === null || keys === null) {
      throw new OrreryError("challenge_forged", `The challenge is not one of the control key ${shown(keyId)}.`);
    }
    secretKey.fill(0);
    const opening = toBinary(OpeningSchema, create(OpeningSchema, openingInit));
    return { opening, signature: identity.sign(proofMessage(handshake, opening)), keys, controlKey };
  }

  /** @throws goodbye_forged unless a control key that the agent believes signed the refusal, for this Hello */
  refusal({ goodbye, keyId, signature }: SignedGoodbye): Goodbye {
    const signer = this.#signer(keyId, goodbyeMessage(this.hello, goodbye), signature);
    const refusal = signer === null ? null : decoded(() => fromBinary(GoodbyeSchema, goodbye));
    if (refusal === null) {
      throw new OrreryError("goodbye_forged", `The refusal is not one of the control key ${shown(keyId)}.`);
    }
    return refusal;
  }

  /** @throws command_forged unless the session's control key signed the command, for this session */
  command({ command, keyId, signature }: SignedCommand, controlKey: ControlKey): Command {
    const message = commandMessage(this.#options.subject, command);
    const isGenuine = keyId === controlKey.keyId && isSignature(controlKey.publicKey, message, signature);
    const genuine = isGenuine ? decoded(() => fromBinary(CommandSchema, command)) : null;
    if (genuine === null) {
      throw new OrreryError("command_forged", `The command is not one of the control key ${controlKey.keyId}.`);
    }
    return genuine;
  }

  #signer(keyId: string, message: Uint8Array, signature: Uint8Array): ControlKey | null {
    const key = this.#options.controlKeys.find((candidate) => candidate.keyId === keyId);
    return key !== undefined && isSignature(key.publicKey, message, signature) ? key : null;
  }
}

function decoded<T>(decode: () => T): T | null {
  try {
    return decode();
  } catch {
    return null;
  }
}

/** A name that nobody vouches for, fit for a log. */
function shown(keyId: string): string {
  return JSON.stringify(keyId.slice(0, 64));
}
