import { create, toBinary } from "@bufbuild/protobuf";
import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";
import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";
import { DEFAULTS } from "../../domain/defaults.ts";
import { knockMessage } from "../../domain/identity/enrolment.ts";
import { exchangePublicKey, handshakeTranscript, proofMessage, sessionKeys } from "../../domain/identity/handshake.ts";
import { isSignature } from "../../domain/identity/signature.ts";
import {
  crowdedOut,
  judgeEpoch,
  judgeHello,
  judgeInstallation,
  proofInvalid,
  type Refusal,
} from "../../domain/node/admission.ts";
import type { EpochMs } from "../../domain/node/node.ts";
import { ChallengeSchema } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { now } from "../shared/clock.ts";
import { type ChallengedAttachment, type GreetingAttachment, writeAttachment } from "./attachment.ts";
import type { NodeChange, NodeWriter } from "./change.ts";
import type { NodeContention } from "./contention.ts";
import type { ControlVoice } from "./control-voice.ts";
import { decodeOpening } from "./frames.ts";
import type { NodeInstallations } from "./installations.ts";
import type { Agreed, NodeSession } from "./session.ts";
import type { AgentSocket, NodeSockets } from "./sockets.ts";
import type { InstallationRecord, NodeRecord, NodeStore } from "./store.ts";
import type { NodeWatch } from "./watch.ts";
import { decodeHello, malformed } from "./wire.ts";

interface HandshakeParts {
  readonly store: NodeStore;
  readonly sockets: NodeSockets;
  readonly voice: ControlVoice;
  readonly writer: NodeWriter;
  readonly watch: NodeWatch;
  readonly session: NodeSession;
  readonly contention: NodeContention;
  readonly installations: NodeInstallations;
}

interface Proof {
  readonly opening: Uint8Array;
  readonly signature: Uint8Array;
}

/** What the Worker has verified of a connection. */
type KnockTicket = Omit<GreetingAttachment, "phase" | "acceptedAt">;

type Underway = GreetingAttachment | ChallengedAttachment;

/** Connections on their way to a session: Hello, Challenge, Proof. Until the proof nothing changes but the socket. */
export class NodeHandshake {
  readonly #parts: HandshakeParts;

  constructor(parts: HandshakeParts) {
    this.#parts = parts;
  }

  /**
   * Whether a connection may be taken in: once an installation has enrolled, its own key has to sign for each of them, so
   * that who has the node token alone takes no seat. Before that nobody can prove anything, and hears so after the Hello.
   */
  admits(node: NodeRecord, ticket: KnockTicket, signature: string): boolean {
    const { signingKey = null } = this.#parts.store.installation(ticket.generation) ?? {};
    if (signingKey === null) return true;
    const message = knockMessage({ nodeId: node.birth.nodeId, ...ticket });
    return /^[0-9a-f]{128}$/.test(signature) && isSignature(hexToBytes(signingKey), message, hexToBytes(signature));
  }

  /** Takes a connection in. When too many of its generation are on their way some have to go. */
  greet(socket: WebSocket, ticket: KnockTicket): void {
    const { generation } = ticket;
    this.#parts.sockets.accept(socket, generation);
    writeAttachment(socket, { phase: "greeting", ...ticket, acceptedAt: now() });
    const rivals = this.#underway().filter(({ attachment }) => attachment.generation === generation);
    const claims = rivals.map(({ socket, attachment }) => ({ socket, ...attachment }));
    for (const claim of crowdedOut(claims, DEFAULTS.agent.greetingConnections)) {
      this.#parts.sockets.close(claim.socket, "too many connections on their way");
    }
  }

  /** @throws malformed_frame */
  hello(node: NodeRecord, socket: WebSocket, greeting: GreetingAttachment, bytes: Uint8Array): void {
    const { store, voice } = this.#parts;
    const hello = decodeHello(bytes);
    const ticket = { nodeId: node.birth.nodeId, ...greeting };
    const expected = store.installation(greeting.generation);
    const refusal = judgeHello(node.state, expected, ticket, hello, DEFAULTS.agent);
    if (refusal !== null) {
      voice.refuseHello(socket, bytes, hello.controlKeyIds, refusal);
      return;
    }
    const exchangeSecret = crypto.getRandomValues(new Uint8Array(32));
    const ephemeralKey = exchangePublicKey(exchangeSecret);
    const challenge = toBinary(ChallengeSchema, create(ChallengeSchema, { ephemeralKey }));
    const handshake = handshakeTranscript(bytes, challenge);
    const signer = voice.signerFor(hello.controlKeyIds);
    writeAttachment(socket, {
      ...greeting,
      phase: "challenged",
      hello: base64Encode(bytes),
      keyId: signer.keyId,
      exchangeSecret: bytesToHex(exchangeSecret),
      handshake: bytesToHex(handshake),
    });
    voice.challenge(socket, signer, challenge, handshake);
  }

  /** @throws malformed_frame */
  proof(socket: WebSocket, challenged: ChallengedAttachment, proof: Proof): void {
    const { store, voice, writer, installations } = this.#parts;
    const { generation, installationId } = challenged;
    const agreed = agree(challenged);
    const refusal = writer.commit((change): Refusal | null => {
      const installation = store.installation(generation);
      const strange = judgeInstallation(change.node.state, installation, installationId, DEFAULTS.agent);
      if (strange !== null || installation === null) return strange;
      const refused = this.#judge(installation, challenged, proof);
      if (refused === null) this.#admit(change, socket, installation, challenged, agreed, proof.opening);
      else installations.recordRefusal(change, generation, refused);
      return refused;
    });
    if (refusal !== null) voice.dismiss(socket, refusal);
  }

  /** When the next connection has to be closed that has not proved itself; null when none is on its way. */
  deadline(): EpochMs | null {
    const waiting = this.#underway().map(({ attachment }) => attachment.acceptedAt + DEFAULTS.agent.helloMs);
    return waiting.length === 0 ? null : Math.min(...waiting);
  }

  closeSilentConnections(): void {
    const message = "The session was not begun and proved in time.";
    const { reconnectMaxMs, helloMs } = DEFAULTS.agent;
    for (const { socket, attachment } of this.#underway()) {
      if (now() < attachment.acceptedAt + helloMs) continue;
      const refusal: Refusal = {
        code: "malformed_frame",
        message,
        reconnectAfterMs: reconnectMaxMs,
        sessionEpoch: null,
      };
      this.#parts.voice.dismiss(socket, refusal);
    }
  }

  /** Whether the installation's own key has signed, and whether this is not a copy's old epoch. */
  #judge(installation: InstallationRecord, challenged: ChallengedAttachment, proof: Proof): Refusal | null {
    const key = hexToBytes(installation.signingKey ?? "");
    const message = proofMessage(hexToBytes(challenged.handshake), proof.opening);
    if (!isSignature(key, message, proof.signature)) return proofInvalid(DEFAULTS.agent);
    const contender = this.#parts.contention.epochOf(installation.generation);
    const known = Math.max(installation.sessionEpoch, contender);
    return judgeEpoch(challenged.sessionEpoch, known, DEFAULTS.agent);
  }

  /** Opens the session, or lets it wait for what the holder of the present one says. */
  #admit(
    change: NodeChange,
    socket: WebSocket,
    installation: InstallationRecord,
    challenged: ChallengedAttachment,
    agreed: Agreed,
    opening: Uint8Array,
  ): void {
    const decoded = decodeOpening(opening);
    const holder = this.#parts.watch.session(installation);
    if (holder === null) {
      this.#parts.session.open(change, socket, installation, agreed, decoded);
      return;
    }
    const { generation, hello } = challenged;
    const newcomer = { ...agreed, generation, hello, opening: base64Encode(opening) };
    this.#parts.contention.begin(change, socket, newcomer, holder.socket);
  }

  #underway(): readonly AgentSocket<Underway>[] {
    return this.#parts.sockets.all().flatMap(({ socket, attachment }) => {
      if (attachment.phase !== "greeting" && attachment.phase !== "challenged") return [];
      return [{ socket, attachment }];
    });
  }
}

/** @throws malformed_frame when the agent's half of the exchange is no key */
function agree({
  hello,
  exchangeSecret,
  handshake,
  installationId,
  sessionEpoch,
  keyId,
}: ChallengedAttachment): Agreed {
  const { ephemeralKey } = decodeHello(base64Decode(hello));
  const keys = sessionKeys(hexToBytes(exchangeSecret), ephemeralKey, hexToBytes(handshake));
  if (keys === null) throw malformed("ephemeral_key is no key");
  const { agent, control } = keys;
  return { installationId, sessionEpoch, keyId, agentKey: bytesToHex(agent), controlKey: bytesToHex(control) };
}
