import type { EpochMs } from "./node.ts";

/** When the agent last showed that a command is alive, and how often its reports left it out since. */
export interface CommandSightings {
  readonly seenAt: EpochMs;
  readonly misses: number;
  readonly missedAt: EpochMs | null;
}

export interface LivenessSettings {
  readonly beatMs: number;
  /** How long an agent may be silent before it counts as gone. */
  readonly silenceLimitMs: number;
  readonly livenessChecks: number;
  readonly livenessCheckMs: number;
  readonly graceMs: number;
}

export function seen(at: EpochMs): CommandSightings {
  return { seenAt: at, misses: 0, missedAt: null };
}

/** One report of the agent: a command that is in it is alive; leaving it out counts as a miss, if checks lie apart. */
export function observeReport(
  sightings: CommandSightings,
  isReported: boolean,
  settings: LivenessSettings,
  now: EpochMs,
): CommandSightings {
  if (isReported) return seen(now);
  if (sightings.misses >= settings.livenessChecks) return sightings;
  if (now < (sightings.missedAt ?? sightings.seenAt) + settings.livenessCheckMs) return sightings;
  return { ...sightings, misses: sightings.misses + 1, missedAt: now };
}

/**
 * When a command that the agent has acknowledged counts as lost, if nothing more is seen of it. Three reports without
 * it, or three beat intervals of an agent that beats but does not name it, start the grace; of an agent that is silent
 * altogether the command is kept until the agent itself counts as gone.
 */
export function lostAt(sightings: CommandSightings, lastBeatAt: EpochMs | null, settings: LivenessSettings): EpochMs {
  if (sightings.misses >= settings.livenessChecks) return (sightings.missedAt ?? sightings.seenAt) + settings.graceMs;
  const checkedMs = settings.livenessChecks * settings.beatMs;
  const beatsWithoutIt = lastBeatAt !== null && lastBeatAt - sightings.seenAt >= checkedMs;
  if (beatsWithoutIt) return sightings.seenAt + checkedMs + settings.graceMs;
  return sightings.seenAt + settings.silenceLimitMs + settings.graceMs;
}

/** When to look whether it is lost: beats without a row wake nobody, so the earliest moment at which they could matter. */
export function livenessLookAt(
  sightings: CommandSightings,
  lastBeatAt: EpochMs | null,
  settings: LivenessSettings,
  now: EpochMs,
): EpochMs {
  const early = sightings.seenAt + settings.livenessChecks * settings.beatMs + settings.graceMs;
  const due = lostAt(sightings, lastBeatAt, settings);
  return due > early && now < early ? early : due;
}
