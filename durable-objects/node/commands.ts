import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";
import { silenceLimitMs } from "../../domain/health/heartbeat.ts";
import type { CommandRequest, CommandView } from "../../domain/node/command.ts";
import { type Delivery, planDelivery } from "../../domain/node/command-delivery.ts";
import { advance, type CommandSignal, isEnded, isLive } from "../../domain/node/command-lifecycle.ts";
import type { LivenessSettings } from "../../domain/node/command-liveness.ts";
import type { SagaWait } from "../../domain/node/node.ts";
import { isTerminal } from "../../domain/node/transition.ts";
import type { NodeChange } from "./change.ts";
import { assertDeliverable, commandMessageOf, parsePayload } from "./command-frame.ts";
import type { CommandPulse } from "./command-pulse.ts";
import { type CommandStore, type StoredCommand, toCommandView } from "./command-store.ts";
import { cancelBody } from "./control-frames.ts";
import type { ControlVoice } from "./control-voice.ts";
import type { SagaEvent } from "./saga-events.ts";
import type { NodeRecord, NodeStore } from "./store.ts";
import type { NodeWatch } from "./watch.ts";

export const LIVENESS: LivenessSettings = {
  ...DEFAULTS.command,
  beatMs: DEFAULTS.heartbeat.beatMs,
  silenceLimitMs: silenceLimitMs(DEFAULTS),
};

/** Progress within one step is written at most this often. */
const PROGRESS_ROW_MS = 2_000;

interface CommandParts {
  readonly store: NodeStore;
  readonly commands: CommandStore;
  readonly voice: ControlVoice;
  readonly watch: NodeWatch;
  readonly pulse: CommandPulse;
  /** Stores the event until the saga's engine has taken it. */
  readonly tellSaga: (event: SagaEvent) => void;
}

/** Runs commands through their life: who may ask, what the agent hears, what its answers and the passing of time mean. */
export class NodeCommands {
  readonly #parts: CommandParts;

  constructor(parts: CommandParts) {
    this.#parts = parts;
  }

  /**
   * @throws idempotency_key_reused, node_ended, node_terminating, no_installation, limit_exceeded
   */
  enqueue(change: NodeChange, request: CommandRequest): CommandView {
    const { commands, store } = this.#parts;
    const earlier = commands.findEarlier(request);
    if (earlier !== null) return repeated(earlier);
    refuse(change.node, request);
    assertDeliverable(request.commandId, request.payload);
    const installation = store.activeInstallation();
    if (installation === null) throw new OrreryError("no_installation", "The node has no active agent.");
    if (request.payload.type === "STOP") this.#preempt(change, installation.generation);
    commands.insert(request, installation.generation, change.at);
    const command = this.#get(request.commandId);
    change.emit(changed(command));
    this.deliver(change, installation.generation, { newSession: false });
    return toCommandView(this.#get(request.commandId));
  }

  /**
   * Ends a queued command; of one that the agent has, it asks the agent.
   * @throws command_not_found, command_ended
   */
  cancel(change: NodeChange, commandId: string, actor: string): CommandView {
    const command = this.#get(commandId);
    if (command.state === "cancelled") return toCommandView(command);
    if (isEnded(command.state)) throw new OrreryError("command_ended", `The command is ${command.state}.`);
    const asked = this.#apply(change, command, { kind: "cancel", message: `Cancelled by ${actor}.` });
    if (isLive(asked.state) && !command.cancelRequested) this.#sendCancel(change, asked);
    this.deliver(change, command.generation, { newSession: false });
    return toCommandView(this.#get(commandId));
  }

  /** @throws command_not_found */
  view(commandId: string): CommandView {
    return toCommandView(this.#get(commandId));
  }

  page(limit: number, before: number | null): { items: readonly CommandView[]; next: number | null } {
    const found = this.#parts.commands.page(limit + 1, before);
    const items = found.slice(0, limit);
    const next = found.length > limit ? (items.at(-1)?.position ?? null) : null;
    return { items: items.map(toCommandView), next };
  }

  /** What the agent said of a command of its own; of any other it is ignored. Answers whether the command's state moved. */
  signal(change: NodeChange, generation: number, commandId: string, signal: CommandSignal): boolean {
    const command = this.#parts.commands.find(commandId);
    if (command === null || command.generation !== generation) return false;
    this.#parts.pulse.seen(generation, commandId, change.at);
    const next = this.#apply(change, command, signal);
    const moved = next.state !== command.state;
    if (!isEnded(next.state)) return moved;
    this.#parts.pulse.forget(generation, commandId);
    this.deliver(change, generation, { newSession: false });
    return moved;
  }

  /** A session has begun: whatever the agent has in hand is watched from now on, and asked for again. */
  resume(change: NodeChange, generation: number): void {
    for (const command of this.#parts.commands.live()) {
      if (command.generation === generation) this.#parts.pulse.seen(generation, command.commandId, change.at);
    }
    this.deliver(change, generation, { newSession: true });
  }

  /** Sends what is due to a connected agent; the rows say so before the frames leave. */
  deliver(change: NodeChange, generation: number, options: { readonly newSession: boolean }): void {
    if (this.#parts.watch.session(this.#parts.store.installation(generation)) === null) return;
    const queue = this.#parts.commands.queue(generation);
    for (const delivery of planDelivery(queue, DEFAULTS.command, change.at, options)) this.#send(change, delivery);
  }

  /** What the passing of time means: expiry, repetition, loss. */
  tick(change: NodeChange): void {
    const { commands, pulse, store } = this.#parts;
    for (const command of commands.expired(change.at)) this.#apply(change, command, { kind: "time_passed" });
    for (const command of commands.live()) {
      const next = this.#apply(change, command, { kind: "time_passed" });
      if (pulse.lostAt(next) > change.at) continue;
      this.#apply(change, next, { kind: "lost", message: "The agent no longer reports the command as running." });
    }
    for (const { generation } of store.installations()) this.deliver(change, generation, { newSession: false });
  }

  /** The node is to be terminated: nothing but the saga's own STOP follows, and who waits is told at once. */
  supersedeAll(change: NodeChange): void {
    for (const command of this.#parts.commands.open()) {
      const next = this.#supersede(change, command, "The node is being terminated.");
      if (isEnded(next.state) || next.notify === null) continue;
      this.#tell(next, next.notify);
      this.#parts.commands.save({ ...next, notify: null });
    }
  }

  /** The node has ended, and its agents with it. */
  endAll(change: NodeChange): void {
    this.#endOpen(change, this.#parts.commands.open(), "The node has ended.");
  }

  /** Another installation takes this one's place: what was asked of it is no longer done. */
  endOf(change: NodeChange, generation: number): void {
    const own = this.#parts.commands.open().filter((command) => command.generation === generation);
    this.#endOpen(change, own, "superseded by another installation");
  }

  #endOpen(change: NodeChange, open: readonly StoredCommand[], message: string): void {
    for (const command of open) {
      const next = this.#apply(change, command, { kind: "superseded", message });
      this.#apply(change, next, { kind: "failed", failure: "cancelled", code: null, message });
    }
  }

  #preempt(change: NodeChange, generation: number): void {
    for (const command of this.#parts.commands.open()) {
      if (command.type === "STOP" || command.generation !== generation) continue;
      this.#supersede(change, command, "superseded by STOP");
    }
  }

  /** The agent may have it in hand even where no acknowledgement has come, so it hears of the cancellation. */
  #supersede(change: NodeChange, command: StoredCommand, message: string): StoredCommand {
    const next = this.#apply(change, command, { kind: "superseded", message });
    if (isLive(command.state) && !command.cancelRequested) this.#sendCancel(change, next);
    return next;
  }

  #send(change: NodeChange, { commandId, frame }: Delivery): void {
    const command = this.#apply(change, this.#get(commandId), { kind: "delivered" });
    if (isEnded(command.state)) return;
    if (frame === "cancel") {
      this.#sendCancel(change, command);
      return;
    }
    const remainingMs = Math.max(0, command.expiresAt - change.at);
    const payload = parsePayload(this.#parts.commands.payload(commandId));
    const message = commandMessageOf(commandId, payload, remainingMs);
    const { nodeId } = change.node.birth;
    this.#toAgent(change, command.generation, (socket) => this.#parts.voice.command(socket, nodeId, message));
  }

  #sendCancel(change: NodeChange, command: StoredCommand): void {
    const body = cancelBody(command.commandId);
    this.#toAgent(change, command.generation, (socket) => this.#parts.voice.tell(socket, body));
  }

  #toAgent(change: NodeChange, generation: number, say: (socket: WebSocket) => void): void {
    const session = this.#parts.watch.session(this.#parts.store.installation(generation));
    if (session !== null) change.afterwards(() => say(session.socket));
  }

  #apply(change: NodeChange, command: StoredCommand, signal: CommandSignal): StoredCommand {
    const moved = advance(command, signal, DEFAULTS.command, change.at);
    if (moved === command) return command;
    const next: StoredCommand = { ...command, ...moved };
    if (isMinorProgress(command, next)) return next;
    this.#parts.commands.save(next);
    if (isEnded(next.state) && next.type === "INJECT_KEYS") this.#parts.commands.wipeSealed(next);
    if (next.state === command.state) return next;
    change.emit(changed(next));
    if (isEnded(next.state) && next.notify !== null) this.#tell(next, next.notify);
    return next;
  }

  #tell(command: StoredCommand, wait: SagaWait): void {
    this.#parts.tellSaga({ wait, payload: { commandId: command.commandId } });
  }

  #get(commandId: string): StoredCommand {
    const command = this.#parts.commands.find(commandId);
    if (command === null) throw new OrreryError("command_not_found", "The node has no such command.", { commandId });
    return command;
  }
}

function repeated({ command, isSame }: { command: StoredCommand; isSame: boolean }): CommandView {
  if (isSame) return toCommandView(command);
  const message = "The key or id was used for a different command.";
  throw new OrreryError("idempotency_key_reused", message, { commandId: command.commandId });
}

/** A node that is being terminated still serves the STOP of its own saga. */
function refuse({ state }: NodeRecord, request: CommandRequest): void {
  if (isTerminal(state)) throw new OrreryError("node_ended", `The node has ended as ${state}.`);
  if (state !== "terminating") return;
  if (request.payload.type === "STOP" && request.requestedBy.startsWith("saga:")) return;
  throw new OrreryError("node_terminating", "The node is being terminated.");
}

function isMinorProgress(before: StoredCommand, after: StoredCommand): boolean {
  if (before.state !== "running" || after.state !== "running") return false;
  if (before.progress === null || after.progress === null) return false;
  if (before.cancelRequested !== after.cancelRequested || before.deliveredAt !== after.deliveredAt) return false;
  if (before.stalledReports !== after.stalledReports || before.progress.step !== after.progress.step) return false;
  return after.progress.at - before.progress.at < PROGRESS_ROW_MS;
}

function changed({ commandId, type, state, code }: StoredCommand) {
  return { kind: "command_changed", commandId, type, state, code } as const;
}
