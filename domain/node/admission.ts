import type { ErrorCode } from "../errors.ts";
import type { EpochMs, InstallationStatus, NodeState } from "./node.ts";
import { isTerminal } from "./transition.ts";

/** Why an agent is turned away; without `reconnectAfterMs` it must not come back. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly message: string;
  readonly reconnectAfterMs: number | null;
  /** With agent_conflict: the epoch that an agent from an old backup goes on above. */
  readonly sessionEpoch: number | null;
}

export interface AdmissionSettings {
  readonly protocolVersion: number;
  readonly oldestProtocolVersion: number;
  readonly reconnectMaxMs: number;
  readonly conflictRetryMs: number;
}

/** Whom the node expects for one generation. */
export interface ExpectedInstallation {
  readonly status: InstallationStatus;
  readonly installationId: string | null;
  /** 64 hex digits; null until an agent has enrolled. */
  readonly signingKey: string | null;
  readonly sealingKey: string | null;
  readonly sessionEpoch: number;
}

/** Keys are 64 hex digits. */
export interface ClaimedInstallation {
  readonly installationId: string;
  readonly signingKey: string;
  readonly sealingKey: string;
}

/** What a connection's ticket was made for, and what its Hello says. */
export interface Introduction {
  readonly nodeId: string;
  readonly generation: number;
  readonly installationId: string;
  readonly sessionEpoch: number;
}

/**
 * One installation a generation, for good (DESIGN section 5): the first claim binds its keys, the same claim is known,
 * any other is refused. Only who no longer belongs to the node must stay away.
 * @param others the node's other generations: whoever may have their secrets shall have nothing of this one
 */
export function judgeEnrolment(
  state: NodeState,
  expected: ExpectedInstallation | null,
  others: readonly ExpectedInstallation[],
  claim: ClaimedInstallation,
  settings: AdmissionSettings,
): "bind" | "known" | Refusal {
  const strange = strangeness(state, expected, settings);
  if (strange !== null || expected === null) return strange ?? "bind";
  if (others.some((other) => sharesIdentity(other, claim))) {
    return conflict("These are another generation's installation or keys; this one needs its own.", settings);
  }
  if (expected.signingKey === null) return "bind";
  const isKnown =
    expected.installationId === claim.installationId &&
    expected.signingKey === claim.signingKey &&
    expected.sealingKey === claim.sealingKey;
  return isKnown ? "known" : conflict("Another installation holds this generation of the node.", settings);
}

/** Whether a connection that has said Hello may be challenged. Nothing is proved yet, so nothing may change by it. */
export function judgeHello(
  state: NodeState,
  expected: ExpectedInstallation | null,
  ticket: Introduction,
  hello: Introduction & { readonly protocolVersion: number },
  settings: AdmissionSettings,
): Refusal | null {
  const { protocolVersion, oldestProtocolVersion, reconnectMaxMs } = settings;
  if (hello.protocolVersion < oldestProtocolVersion || hello.protocolVersion > protocolVersion) {
    const message = `The edge speaks protocol version ${protocolVersion}, not ${hello.protocolVersion}.`;
    return refusal("agent_protocol_unsupported", message, reconnectMaxMs);
  }
  if (!isSameIntroduction(ticket, hello)) {
    return refusal("agent_unauthenticated", "The Hello is not the one that its ticket was made for.", reconnectMaxMs);
  }
  return judgeInstallation(state, expected, hello.installationId, settings);
}

/** Whether the node has keys of this installation to believe it by. */
export function judgeInstallation(
  state: NodeState,
  expected: ExpectedInstallation | null,
  installationId: string,
  settings: AdmissionSettings,
): Refusal | null {
  const strange = strangeness(state, expected, settings);
  if (strange !== null) return strange;
  if (expected === null || expected.signingKey === null) {
    return refusal("agent_not_enrolled", "The installation has not enrolled.", settings.reconnectMaxMs);
  }
  if (expected.installationId === installationId) return null;
  return conflict("Another installation holds this generation of the node.", settings);
}

/** A copy must not use the epochs up that are left to the original; an agent raises its epoch by one with each attempt. */
const EPOCH_STEP_MAX = 2 ** 32;

/**
 * Every session is in a higher epoch than the last one, and than one that waits for its holder's answer; who comes with
 * an old one is a copy, or the agent itself from an old backup, which learns the epoch to go on above.
 */
export function judgeEpoch(sessionEpoch: number, known: number, settings: AdmissionSettings): Refusal | null {
  if (sessionEpoch > known && sessionEpoch - known <= EPOCH_STEP_MAX) return null;
  const message =
    sessionEpoch > known
      ? `Session epoch ${sessionEpoch} is too far above the last; no agent tries so often in vain.`
      : `Session epoch ${sessionEpoch} is not higher than the last; this is a copy, or an old backup.`;
  return { ...conflict(message, settings), sessionEpoch: known };
}

export function proofInvalid({ reconnectMaxMs }: AdmissionSettings): Refusal {
  return refusal("proof_invalid", "The installation's key did not sign this session.", reconnectMaxMs);
}

/** The holder of the session answered while another connection claimed to be it. */
export function copyOfHolder(settings: AdmissionSettings): Refusal {
  return conflict("The installation's present session is alive; this is a copy.", settings);
}

/**
 * Which of the connections on their way have to go when there are more than `seats`. Half of the seats are for the
 * highest epochs: who repeats tickets that it has seen never crowds out the agent, whose epoch rises with each attempt.
 * The others are for the newest: a copy that signs for epochs far above, or old tickets above the epoch of an agent from
 * an old backup, do not keep the agent out by sitting on every seat.
 */
export function crowdedOut<T extends { readonly sessionEpoch: number; readonly acceptedAt: EpochMs }>(
  connections: readonly T[],
  seats: number,
): readonly T[] {
  const newest = connections.toSorted((one, other) => other.acceptedAt - one.acceptedAt);
  const byEpoch = newest.toSorted((one, other) => other.sessionEpoch - one.sessionEpoch);
  const highest = new Set(byEpoch.slice(0, Math.floor(seats / 2)));
  return newest.filter((each) => !highest.has(each)).slice(seats - highest.size);
}

/** Whether a refusal is told of: who keeps knocking is told of once in a while for each code, not each time. */
export function isNewsworthy(
  told: Readonly<Record<string, EpochMs>>,
  code: ErrorCode,
  noticeMs: number,
  now: EpochMs,
): boolean {
  const last = told[code];
  return last === undefined || now - last >= noticeMs;
}

/** Whether a host belongs to the node at all. */
function strangeness(
  state: NodeState,
  expected: ExpectedInstallation | null,
  { reconnectMaxMs }: AdmissionSettings,
): Refusal | null {
  if (isTerminal(state) || expected?.status === "revoked") {
    return refusal("agent_revoked", "This host no longer belongs to the node.", null);
  }
  if (expected !== null) return null;
  // Its saga may be about to announce it.
  return refusal("no_installation", "The node does not expect an agent of this generation.", reconnectMaxMs);
}

function sharesIdentity(one: ExpectedInstallation, other: ClaimedInstallation): boolean {
  return (
    one.installationId === other.installationId ||
    one.signingKey === other.signingKey ||
    one.sealingKey === other.sealingKey
  );
}

function isSameIntroduction(one: Introduction, other: Introduction): boolean {
  return (
    one.nodeId === other.nodeId &&
    one.generation === other.generation &&
    one.installationId === other.installationId &&
    one.sessionEpoch === other.sessionEpoch
  );
}

function conflict(message: string, { conflictRetryMs }: AdmissionSettings): Refusal {
  return refusal("agent_conflict", message, conflictRetryMs);
}

function refusal(code: ErrorCode, message: string, reconnectAfterMs: number | null): Refusal {
  return { code, message, reconnectAfterMs, sessionEpoch: null };
}
