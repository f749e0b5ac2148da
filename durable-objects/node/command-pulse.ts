import { commandDeadline } from "../../domain/node/command-delivery.ts";
import type { CommandSettings } from "../../domain/node/command-lifecycle.ts";
import {
  type CommandSightings,
  type LivenessSettings,
  livenessLookAt,
  lostAt,
  observeReport,
  seen,
} from "../../domain/node/command-liveness.ts";
import type { EpochMs } from "../../domain/node/node.ts";
import { editSession, type OpenAttachment } from "./attachment.ts";
import type { CommandStore, StoredCommand } from "./command-store.ts";
import type { AgentSocket } from "./sockets.ts";
import type { NodeStore } from "./store.ts";
import type { NodeWatch } from "./watch.ts";

/**
 * Whether commands in an agent's hands are alive. What reports say is kept on the socket, because it changes with every
 * beat; without a socket the rows' own times have to do.
 */
export class CommandPulse {
  readonly #store: NodeStore;
  readonly #commands: CommandStore;
  readonly #watch: NodeWatch;
  readonly #settings: LivenessSettings & CommandSettings;

  constructor(
    store: NodeStore,
    commands: CommandStore,
    watch: NodeWatch,
    settings: LivenessSettings & CommandSettings,
  ) {
    this.#store = store;
    this.#commands = commands;
    this.#watch = watch;
    this.#settings = settings;
  }

  /** A report of everything that runs: what it leaves out is missed. */
  report(generation: number, runningCommandIds: readonly string[], now: EpochMs): void {
    const session = this.#session(generation);
    if (session === null) return;
    editSession(session.socket, ({ sightings }) => ({
      sightings: sightings.map(({ commandId, ...sighting }) => {
        return { commandId, ...observeReport(sighting, runningCommandIds.includes(commandId), this.#settings, now) };
      }),
    }));
  }

  seen(generation: number, commandId: string, now: EpochMs): void {
    const session = this.#session(generation);
    if (session === null) return;
    editSession(session.socket, ({ sightings }) => ({
      sightings: [...sightings.filter((sighting) => sighting.commandId !== commandId), { commandId, ...seen(now) }],
    }));
  }

  forget(generation: number, commandId: string): void {
    const session = this.#session(generation);
    if (session === null) return;
    editSession(session.socket, ({ sightings }) => ({
      sightings: sightings.filter((sighting) => sighting.commandId !== commandId),
    }));
  }

  /** When the command counts as lost if nothing more is heard of it; an unacknowledged one is never lost. */
  lostAt(command: StoredCommand): EpochMs {
    if (command.state !== "acknowledged" && command.state !== "running") return Number.POSITIVE_INFINITY;
    return lostAt(this.#sightings(command), this.#lastBeatAt(command.generation), this.#settings);
  }

  /** When commands next need a look; null when none waits for anything. */
  nextLookAt(now: EpochMs): EpochMs | null {
    const looks = this.#commands.live().flatMap((command) => this.#looks(command, now));
    const expiry = this.#commands.nextExpiry();
    if (expiry !== null) looks.push(expiry);
    return looks.length === 0 ? null : Math.min(...looks);
  }

  #looks(command: StoredCommand, now: EpochMs): EpochMs[] {
    const deadline = commandDeadline(command, this.#settings, this.#session(command.generation) !== null);
    const looks = deadline === null ? [] : [deadline];
    if (command.state === "sent") return looks;
    const beat = this.#lastBeatAt(command.generation);
    return [...looks, livenessLookAt(this.#sightings(command), beat, this.#settings, now)];
  }

  #sightings(command: StoredCommand): CommandSightings {
    const session = this.#session(command.generation);
    const found = session?.attachment.sightings.find((sighting) => sighting.commandId === command.commandId);
    if (found !== undefined) return found;
    const { listeningSince = 0 } = this.#store.node() ?? {};
    const installation = this.#store.installation(command.generation);
    const times = [command.acknowledgedAt, command.progress?.at, installation?.lastBeatAt, listeningSince];
    return seen(Math.max(...times.map((time) => time ?? 0)));
  }

  #lastBeatAt(generation: number): EpochMs | null {
    const installation = this.#store.installation(generation);
    return installation === null ? null : this.#watch.lastBeatAt(installation);
  }

  #session(generation: number): AgentSocket<OpenAttachment> | null {
    return this.#watch.session(this.#store.installation(generation));
  }
}
