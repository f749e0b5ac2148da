import type { ErrorCode } from "../errors.ts";

/** What no agent sends within its session, and no control plane: somebody between them altered or made up a frame. */
const IN_SESSION = [
  "frame_forged",
  "frame_replayed",
  "frame_out_of_order",
  "frame_too_large",
  "malformed_frame",
] as const satisfies readonly ErrorCode[];

/**
 * What only somebody between agent and control plane can have done: what an agent meets, and what it is refused for
 * though it has not sent it so.
 */
const TAMPERING = [
  ...IN_SESSION,
  "enrolment_forged",
  "challenge_forged",
  "goodbye_forged",
  "command_forged",
  "proof_invalid",
  "agent_unauthenticated",
] as const satisfies readonly ErrorCode[];
export type TamperingCode = (typeof TAMPERING)[number];

/** Whether a frame of an open session that is refused with this code was tampered with. */
export function isFrameTampering(code: ErrorCode): boolean {
  return IN_SESSION.some((known) => known === code);
}

/** Whether an agent that meets this, or is refused with it, has a tamperer on its way. */
export function isTampering(code: ErrorCode): code is TamperingCode {
  return TAMPERING.some((known) => known === code);
}
