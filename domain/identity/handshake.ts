import { x25519 } from "@noble/curves/ed25519.js";
import { hkdf } from "@noble/hashes/hkdf.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import { digest, transcript } from "./transcript.ts";

/**
 * How a session begins: Hello, Challenge, Proof. Both sides send an X25519 key made for the session; the control plane
 * signs both by its control key and the agent by its installation's key, so that neither can be stood in for, and the
 * session's keys come out of the exchange and are forgotten with it.
 */

/** What both sides have seen when the challenge has been made; 32 bytes. */
export function handshakeTranscript(hello: Uint8Array, challenge: Uint8Array): Uint8Array {
  return digest("orrery-handshake-v2", [hello, challenge]);
}

/** What a control key signs to make a challenge its own. */
export function challengeMessage(handshake: Uint8Array): Uint8Array {
  return transcript("orrery-challenge-v2", [handshake]);
}

/** What the installation's key signs to prove that it is the one. */
export function proofMessage(handshake: Uint8Array, opening: Uint8Array): Uint8Array {
  return transcript("orrery-proof-v2", [handshake, opening]);
}

/** What a control key signs to turn an agent away before there is a session; good for this one Hello. */
export function goodbyeMessage(hello: Uint8Array, goodbye: Uint8Array): Uint8Array {
  return transcript("orrery-goodbye-v2", [digest("orrery-hello-v2", [hello]), goodbye]);
}

/** The session that a command's signature holds for. */
export interface CommandAddressee {
  readonly nodeId: string;
  readonly installationId: string;
  readonly sessionEpoch: number;
}

/** What a control key signs to make a serialized Command its own, for one session of one installation. */
export function commandMessage(to: CommandAddressee, command: Uint8Array): Uint8Array {
  return transcript("orrery-command-v2", [to.nodeId, to.installationId, String(to.sessionEpoch), command]);
}

/** A MAC key for each direction; 32 bytes each. */
export interface SessionKeys {
  readonly agent: Uint8Array;
  readonly control: Uint8Array;
}

/** The public half of a session's X25519 key. */
export function exchangePublicKey(secretKey: Uint8Array): Uint8Array {
  return x25519.getPublicKey(secretKey);
}

/** The session's keys, or null when the peer's key is none (of the wrong length, or of low order). */
export function sessionKeys(
  secretKey: Uint8Array,
  peerPublicKey: Uint8Array,
  handshake: Uint8Array,
): SessionKeys | null {
  const shared = sharedSecret(secretKey, peerPublicKey);
  if (shared === null) return null;
  const derive = (direction: string) =>
    hkdf(sha256, shared, handshake, utf8ToBytes(`orrery-session-v2 ${direction}`), 32);
  return { agent: derive("agent"), control: derive("control") };
}

function sharedSecret(secretKey: Uint8Array, peerPublicKey: Uint8Array): Uint8Array | null {
  if (peerPublicKey.length !== 32) return null;
  try {
    return x25519.getSharedSecret(secretKey, peerPublicKey);
  } catch {
    return null;
  }
}
