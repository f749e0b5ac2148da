import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { hexToBytes } from "@noble/hashes/utils.js";
import { parseConfig } from "../../domain/config.ts";
import { type ControlKey, type ControlSigner, controlSigners, signerFor } from "../../domain/identity/control-key.ts";
import { sealFrame } from "../../domain/identity/frame-seal.ts";
import { challengeMessage, commandMessage, goodbyeMessage } from "../../domain/identity/handshake.ts";
import { sign } from "../../domain/identity/signature.ts";
import type { Refusal } from "../../domain/node/admission.ts";
import {
  type Command,
  CommandSchema,
  ControlBodySchema,
  ControlMessageSchema,
  GoodbyeSchema,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { errorText, log } from "../shared/log.ts";
import { editSession, readAttachment } from "./attachment.ts";
import { type ControlBodyInit, goodbyeInit } from "./control-frames.ts";
import type { NodeSockets } from "./sockets.ts";

type MessageInit = Exclude<MessageInitShape<typeof ControlMessageSchema>, { $typeName: string }>;

/**
 * What the node says to its agents, so that they can believe it: before a session every word is signed by a control key,
 * within one everything is sealed. This is the one place that counts sealed frames.
 */
export class ControlVoice {
  readonly #env: Env;
  readonly #sockets: NodeSockets;
  #derived: readonly ControlSigner[] | null = null;

  constructor(env: Env, sockets: NodeSockets) {
    this.#env = env;
    this.#sockets = sockets;
  }

  /** The keys that agents are told to trust, newest first. */
  keys(): readonly ControlKey[] {
    return this.#signers();
  }

  /** The one that speaks to an agent which trusts these keys. */
  signerFor(trustedIds: readonly string[]): ControlSigner {
    return signerFor(this.#signers(), trustedIds);
  }

  challenge(socket: WebSocket, signer: ControlSigner, challenge: Uint8Array, handshake: Uint8Array): void {
    const signature = sign(signer.secretKey, challengeMessage(handshake));
    this.#send(socket, { case: "challenge", value: { challenge, keyId: signer.keyId, signature } });
  }

  /** A frame that cannot be sent is not lost: the ack wait and the next session repeat what matters. */
  tell(socket: WebSocket, body: ControlBodyInit): void {
    const session = editSession(socket, ({ sent }) => ({ sent: sent + 1 }));
    if (session === null) return;
    const bytes = toBinary(ControlBodySchema, create(ControlBodySchema, { body }));
    const { counter, mac } = sealFrame(hexToBytes(session.controlKey), session.sent, bytes);
    this.#send(socket, { case: "sealed", value: { counter: BigInt(counter), body: bytes, mac } });
  }

  /** A command with our signature for this one session. */
  command(socket: WebSocket, nodeId: string, command: Command): void {
    const session = readAttachment(socket);
    if (session?.phase !== "open") return;
    const bytes = toBinary(CommandSchema, command);
    const signer = this.#signers().find(({ keyId }) => keyId === session.keyId);
    if (signer === undefined) {
      // Rotated twice within this session: the agent would take our word for a forgery. The next session agrees anew.
      this.#sockets.close(socket, "the control key was rotated");
      return;
    }
    const signature = sign(signer.secretKey, commandMessage({ nodeId, ...session }, bytes));
    this.tell(socket, { case: "command", value: { command: bytes, keyId: signer.keyId, signature } });
  }

  /** Says why in a way that the agent can believe, as far as it has come, and closes. */
  dismiss(socket: WebSocket, refusal: Refusal): void {
    const attachment = readAttachment(socket);
    if (attachment?.phase === "open") {
      this.tell(socket, { case: "goodbye", value: goodbyeInit(refusal) });
    } else if (attachment !== null && attachment.phase !== "greeting") {
      this.#turnAway(socket, base64Decode(attachment.hello), [attachment.keyId], refusal);
    }
    this.#sockets.close(socket, refusal.code);
  }

  /** The same to who has only said Hello. */
  refuseHello(socket: WebSocket, hello: Uint8Array, trustedIds: readonly string[], refusal: Refusal): void {
    this.#turnAway(socket, hello, trustedIds, refusal);
    this.#sockets.close(socket, refusal.code);
  }

  #turnAway(socket: WebSocket, hello: Uint8Array, trustedIds: readonly string[], refusal: Refusal): void {
    const signer = this.signerFor(trustedIds);
    const goodbye = toBinary(GoodbyeSchema, create(GoodbyeSchema, goodbyeInit(refusal)));
    const signature = sign(signer.secretKey, goodbyeMessage(hello, goodbye));
    this.#send(socket, { case: "goodbye", value: { goodbye, keyId: signer.keyId, signature } });
  }

  /** Derived once, when they are first needed. */
  #signers(): readonly ControlSigner[] {
    if (this.#derived === null) {
      const { MASTER_SECRET, CONTROL_KEY_VERSION } = parseConfig(this.#env);
      this.#derived = controlSigners(MASTER_SECRET, CONTROL_KEY_VERSION);
    }
    return this.#derived;
  }

  #send(socket: WebSocket, body: NonNullable<MessageInit["body"]>): void {
    try {
      socket.send(toBinary(ControlMessageSchema, create(ControlMessageSchema, { body })));
    } catch (thrown) {
      log("warn", "frame not sent", { frame: body.case ?? "none", error: errorText(thrown) });
    }
  }
}
