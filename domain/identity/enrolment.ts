import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { hexToBytes } from "@noble/hashes/utils.js";
import { equalBytes, transcript } from "./transcript.ts";

/** What an agent asks to be known as: its installation's public keys for one generation of a node. */
export interface EnrolmentClaim {
  readonly nodeId: string;
  readonly generation: number;
  readonly installationId: string;
  /** Ed25519, 32 bytes. */
  readonly signingKey: Uint8Array;
  /** X25519, 32 bytes. */
  readonly sealingKey: Uint8Array;
}

/** HMAC-SHA256 of the claim under the node token (64 hex digits), which proves the token and does not show it. */
export function enrolmentMac(nodeToken: string, claim: EnrolmentClaim): Uint8Array {
  const { nodeId, generation, installationId, signingKey, sealingKey } = claim;
  const message = transcript("orrery-enrolment-v1", [
    nodeId,
    String(generation),
    installationId,
    signingKey,
    sealingKey,
  ]);
  return hmac(sha256, hexToBytes(nodeToken), message);
}

export function isEnrolmentMac(nodeToken: string, claim: EnrolmentClaim, mac: Uint8Array): boolean {
  return equalBytes(enrolmentMac(nodeToken, claim), mac);
}

/** The control plane's MAC over its answer: the result's serialized bytes, for the request with this mac and no other. */
export function enrolmentAnswerMac(nodeToken: string, requestMac: Uint8Array, result: Uint8Array): Uint8Array {
  return hmac(sha256, hexToBytes(nodeToken), transcript("orrery-enrolment-answer-v1", [requestMac, result]));
}

export function isEnrolmentAnswerMac(
  nodeToken: string,
  requestMac: Uint8Array,
  result: Uint8Array,
  mac: Uint8Array,
): boolean {
  return equalBytes(enrolmentAnswerMac(nodeToken, requestMac, result), mac);
}

/** Which connection a ticket is for. */
export interface TicketSubject {
  readonly nodeId: string;
  readonly generation: number;
  readonly installationId: string;
  readonly sessionEpoch: number;
}

/**
 * Opens the door to a node's object and nothing behind it: who has no node token cannot make the edge wake an object.
 * Hex of HMAC-SHA256 under the node token. Whoever sees a ticket may knock with it again; only a proof is believed.
 */
export function sessionTicket(nodeToken: string, subject: TicketSubject): string {
  return Array.from(ticketBytes(nodeToken, subject), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function isSessionTicket(nodeToken: string, subject: TicketSubject, ticket: string): boolean {
  return /^[0-9a-f]{64}$/.test(ticket) && equalBytes(ticketBytes(nodeToken, subject), hexToBytes(ticket));
}

/**
 * What the installation's signing key signs beside the ticket: a thief of the node token can make tickets, and shall not
 * take the place of connections that the installation itself has made.
 */
export function knockMessage(subject: TicketSubject): Uint8Array {
  return transcript("orrery-session-knock-v1", partsOf(subject));
}

function ticketBytes(nodeToken: string, subject: TicketSubject): Uint8Array {
  return hmac(sha256, hexToBytes(nodeToken), transcript("orrery-session-ticket-v1", partsOf(subject)));
}

function partsOf({ nodeId, generation, installationId, sessionEpoch }: TicketSubject): string[] {
  return [nodeId, String(generation), installationId, String(sessionEpoch)];
}
