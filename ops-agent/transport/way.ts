import { knockMessage, sessionTicket, type TicketSubject } from "../../domain/identity/enrolment.ts";
import type { ControlMessage, EnrollRequest, EnrollResponse } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { AgentMessageInit } from "../session/messages.ts";

/** A way to the control plane. What stands on it is not trusted: it can drop and delay, and end things as it likes. */
export interface Way {
  readonly name: "bridge" | "direct";
  /** Asks once. @throws with a reason for the log when there is no answer */
  enrol(request: EnrollRequest, signal: AbortSignal): Promise<EnrollResponse>;
  /** Never throws: what goes wrong is the transport's end. */
  open(ticket: Ticket, handlers: TransportHandlers): Transport;
  /** Whether something answers there at all. */
  isReachable(): Promise<boolean>;
}

/** One connection, for one session. */
export interface Transport {
  /** In order, from the start on; what is sent after the end is lost. */
  send(message: AgentMessageInit): void;
  /** Ends the connection when what was sent before has gone out, or could not. */
  close(): Promise<void>;
  /** Ends the connection at once. */
  abort(): void;
}

export interface TransportHandlers {
  onMessage(message: ControlMessage): void;
  /** Once, unless the agent ended the connection itself. */
  onEnd(end: TransportEnd): void;
}

export interface TransportEnd {
  readonly reason: string;
  /** When a bridge that goes away asks to come back; nobody vouches for it. */
  readonly reconnectAfterMs: number | null;
}

/** What a connection shows at the door. */
export interface Ticket extends TicketSubject {
  readonly ticket: string;
  /** By the installation's signing key; 128 hex digits. */
  readonly signature: string;
}

/** @param sign with the installation's signing key */
export function ticketFor(
  nodeToken: string,
  subject: TicketSubject,
  sign: (message: Uint8Array) => Uint8Array,
): Ticket {
  const signature = Buffer.from(sign(knockMessage(subject))).toString("hex");
  return { ...subject, ticket: sessionTicket(nodeToken, subject), signature };
}

export function lost(reason: string): TransportEnd {
  return { reason, reconnectAfterMs: null };
}

/** How long a connection has to be taken, and an enrolment to be answered. */
export const OPEN_MS = 10_000;
/** How long a connection that the agent ends itself has for what is still to go out. */
export const CLOSE_MS = 1_000;
