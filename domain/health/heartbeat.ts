import type { ApplicationHealth, EpochMs, NodeState, SyncStatus } from "../node/node.ts";

export interface HeartbeatSettings {
  readonly heartbeat: {
    readonly firstFailureMs: number;
    readonly nextFailureMs: number;
    readonly failuresForDown: number;
  };
  readonly degradedRecoveryMs: number;
}

/** What the rule looks at. */
export interface HeartbeatSnapshot {
  readonly state: NodeState;
  readonly stateSince: EpochMs;
  readonly applicationHealth: ApplicationHealth;
  readonly syncStatus: SyncStatus;
  /** Whether the chain has policies that earn `application_health`; without any, `unknown` counts as good. */
  readonly hasPolicies: boolean;
  /** The newest beat of the active installation. */
  readonly lastBeatAt: EpochMs | null;
  /** When we began to listen without a gap of our own: silence before it proves nothing. */
  readonly listeningSince: EpochMs;
  /** When the active installation's present session began; null without one. */
  readonly aliveSince: EpochMs | null;
}

export interface HeartbeatDecision {
  /** Failures that the silence amounts to: 60 s is one, every 30 s more another. */
  readonly failures: number;
  readonly transition: {
    readonly to: NodeState;
    readonly trigger: "heartbeat" | "evaluation";
    readonly effectiveAt: EpochMs;
    readonly reason: string;
  } | null;
  /** When to look again if nothing is heard before; null when time alone changes nothing. */
  readonly nextLookAt: EpochMs | null;
}

const WATCHED: ReadonlySet<NodeState> = new Set(["syncing", "healthy", "degraded"]);

/**
 * Decides what beats and silence mean for a node now. The failures follow from the length of the silence, so it does
 * not matter how often or when this is asked: the node is down exactly from `silenceDeadline` on.
 */
export function evaluateHeartbeat(
  snapshot: HeartbeatSnapshot,
  settings: HeartbeatSettings,
  now: EpochMs,
): HeartbeatDecision {
  const failures = failuresOf(now - heardAt(snapshot), settings);
  const unchanged = { failures, transition: null };
  if (snapshot.state === "down") return { failures, transition: recovery(snapshot, settings, now), nextLookAt: null };
  if (!WATCHED.has(snapshot.state)) return { ...unchanged, nextLookAt: null };
  if (failures >= settings.heartbeat.failuresForDown) {
    return { failures, transition: goingDown(snapshot, now), nextLookAt: null };
  }
  const nextLookAt = nextLook(snapshot, settings, now);
  if (!isAlive(snapshot, settings, now)) return { ...unchanged, nextLookAt };
  return { failures, transition: earned(snapshot, settings, now), nextLookAt };
}

/** The moment at which silence makes a node down: last beat, or start of our listening, plus 120 s. */
export function silenceDeadline(
  snapshot: Pick<HeartbeatSnapshot, "lastBeatAt" | "listeningSince">,
  { heartbeat }: HeartbeatSettings,
): EpochMs {
  const further = (heartbeat.failuresForDown - 1) * heartbeat.nextFailureMs;
  return heardAt(snapshot) + heartbeat.firstFailureMs + further;
}

/** How long a silence may last before the node is down. */
export function silenceLimitMs(settings: HeartbeatSettings): number {
  return silenceDeadline({ lastBeatAt: 0, listeningSince: 0 }, settings);
}

function failuresOf(silentMs: number, { heartbeat }: HeartbeatSettings): number {
  if (silentMs < heartbeat.firstFailureMs) return 0;
  return 1 + Math.floor((silentMs - heartbeat.firstFailureMs) / heartbeat.nextFailureMs);
}

function heardAt({ lastBeatAt, listeningSince }: Pick<HeartbeatSnapshot, "lastBeatAt" | "listeningSince">): EpochMs {
  return Math.max(lastBeatAt ?? listeningSince, listeningSince);
}

/** Alive is proved by a beat, never by our own listening. */
function isAlive({ lastBeatAt }: HeartbeatSnapshot, { heartbeat }: HeartbeatSettings, now: EpochMs): boolean {
  return lastBeatAt !== null && now - lastBeatAt < heartbeat.firstFailureMs;
}

/** Dated back to the last beat, but never into a gap of our own listening nor before the state that it ends. */
function goingDown(snapshot: HeartbeatSnapshot, now: EpochMs): HeartbeatDecision["transition"] {
  const since = heardAt(snapshot);
  const effectiveAt = Math.max(since, snapshot.stateSince);
  return { to: "down", trigger: "heartbeat", effectiveAt, reason: `no beat for ${Math.floor((now - since) / 1000)} s` };
}

function recovery(
  snapshot: HeartbeatSnapshot,
  settings: HeartbeatSettings,
  now: EpochMs,
): HeartbeatDecision["transition"] {
  if (!isAlive(snapshot, settings, now)) return null;
  return { to: aliveState(snapshot.syncStatus), trigger: "heartbeat", effectiveAt: now, reason: "the agent is back" };
}

function earned(
  snapshot: HeartbeatSnapshot,
  settings: HeartbeatSettings,
  now: EpochMs,
): HeartbeatDecision["transition"] {
  if (snapshot.state === "degraded" && now < (recoveryDue(snapshot, settings) ?? Number.POSITIVE_INFINITY)) return null;
  const to = aliveState(snapshot.syncStatus);
  if (to === snapshot.state) return null;
  const reason = snapshot.state === "degraded" ? "alive and in good health" : `the chain is ${snapshot.syncStatus}`;
  return { to, trigger: "evaluation", effectiveAt: now, reason };
}

function aliveState(syncStatus: SyncStatus): "healthy" | "syncing" {
  return syncStatus === "synced" ? "healthy" : "syncing";
}

/** When a degraded node has been alive in good health for long enough; null while it cannot recover by time. */
function recoveryDue(snapshot: HeartbeatSnapshot, settings: HeartbeatSettings): EpochMs | null {
  if (snapshot.state !== "degraded" || snapshot.aliveSince === null) return null;
  const good =
    snapshot.applicationHealth === "ok" || (snapshot.applicationHealth === "unknown" && !snapshot.hasPolicies);
  if (!good) return null;
  return Math.max(snapshot.stateSince, snapshot.aliveSince) + settings.degradedRecoveryMs;
}

function nextLook(snapshot: HeartbeatSnapshot, settings: HeartbeatSettings, now: EpochMs): EpochMs {
  const deadline = silenceDeadline(snapshot, settings);
  const due = recoveryDue(snapshot, settings);
  return due !== null && due > now ? Math.min(deadline, due) : deadline;
}
