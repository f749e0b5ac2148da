import { type CommandRecord, type CommandSettings, isLive } from "./command-lifecycle.ts";
import type { EpochMs } from "./node.ts";

/** The commands of one installation that decide what to send next. */
export interface CommandQueue {
  /** Delivered and not ended, in order of queueing. */
  readonly live: readonly CommandRecord[];
  /** The earliest that is queued. */
  readonly head: CommandRecord | null;
  /** The earliest queued STOP. */
  readonly stop: CommandRecord | null;
}

export interface Delivery {
  readonly commandId: string;
  readonly frame: "command" | "cancel";
}

/**
 * What to send to a connected agent now. One command at a time, in order of queueing; a STOP overtakes what is queued
 * and what runs. A new session hears again of everything live (the agent answers from its record), an unconfirmed
 * delivery is repeated after the ack wait; of a command that was cancelled it hears the cancellation only, so that it
 * is never started by a repetition.
 */
export function planDelivery(
  queue: CommandQueue,
  settings: CommandSettings,
  now: EpochMs,
  options: { readonly newSession: boolean },
): readonly Delivery[] {
  const again = queue.live.filter((command) => options.newSession || isUnconfirmed(command, settings, now));
  const next = nextToStart(queue, now);
  return [...again.flatMap((command) => redelivery(command)), ...(next === null ? [] : [deliver(next)])];
}

function nextToStart(queue: CommandQueue, now: EpochMs): CommandRecord | null {
  const candidate = queue.stop ?? queue.head;
  if (candidate === null || now >= candidate.expiresAt) return null;
  const blocking = queue.stop === null ? queue.live : queue.live.filter((command) => command.type === "STOP");
  return blocking.length > 0 ? null : candidate;
}

function isUnconfirmed(command: CommandRecord, settings: CommandSettings, now: EpochMs): boolean {
  if (command.state !== "sent" && !command.cancelRequested) return false;
  return command.deliveredAt === null || now >= command.deliveredAt + settings.ackWaitMs;
}

function redelivery(command: CommandRecord): readonly Delivery[] {
  if (!command.cancelRequested) return [deliver(command)];
  return [{ commandId: command.commandId, frame: "cancel" }];
}

function deliver(command: CommandRecord): Delivery {
  return { commandId: command.commandId, frame: "command" };
}

/** When a command that waits for the agent or for its time to live needs a look; null where liveness decides. */
export function commandDeadline(command: CommandRecord, settings: CommandSettings, connected: boolean): EpochMs | null {
  if (command.state === "queued") return command.expiresAt;
  if (!isLive(command.state)) return null;
  const repeats = connected && (command.state === "sent" || command.cancelRequested);
  const repeatAt = repeats ? (command.deliveredAt ?? command.createdAt) + settings.ackWaitMs : null;
  const giveUpAt = command.state === "sent" ? command.expiresAt + settings.graceMs : null;
  if (repeatAt === null) return giveUpAt;
  return giveUpAt === null ? repeatAt : Math.min(repeatAt, giveUpAt);
}
