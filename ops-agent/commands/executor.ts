import { type ErrorCode, OrreryError, toErrorData } from "../../domain/errors.ts";
import { type Command, CommandType, FailureKind } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { Logger } from "../log.ts";
import type { AgentBodyInit } from "../session/messages.ts";
import type { CommandRecord, FailedKind, Outcome } from "../state/command-record.ts";
import { type CommandContext, commandTypeName, type Interpret, type Work } from "./handlers.ts";
import { ProgressReporter } from "./progress.ts";

export interface ExecutorOptions {
  readonly record: CommandRecord;
  readonly interpret: Interpret;
  readonly send: (body: AgentBodyInit) => void;
  readonly log: Logger;
  /** Milliseconds that only go forward. */
  readonly now: () => number;
  readonly stallCheckMs: number;
}

interface Queued {
  readonly id: string;
  readonly type: CommandType;
  readonly work: Work;
  /** By our own monotonic clock: the command must have started before. */
  readonly startBy: number;
}

interface Running {
  readonly id: string;
  readonly type: CommandType;
  readonly abort: AbortController;
  readonly reporter: ProgressReporter;
  readonly done: Promise<void>;
}

/** Longer texts are cut: an outcome must fit the record and a frame. */
const MESSAGE_LENGTH = 2_000;

/** Why a command is ended before its time: thrown by the abort signal of its context. */
class Ending extends Error {
  readonly outcome: Outcome;

  constructor(outcome: Outcome & { readonly ok: false }) {
    super(outcome.message);
    this.outcome = outcome;
  }
}

/**
 * Executes commands one at a time in the order of their receipt, each at most once whatever happens:
 * the record says what has been done, and is written before anything is. STOP goes before all others.
 */
export class CommandExecutor {
  readonly #options: ExecutorOptions;
  readonly #queue: Queued[] = [];
  #running: Running | null = null;
  #isStopping = false;

  constructor(options: ExecutorOptions) {
    this.#options = options;
  }

  runningIds(): readonly string[] {
    return this.#running === null ? [] : [this.#running.id];
  }

  /** A command from the control plane, perhaps not for the first time. */
  receive(command: Command): void {
    if (this.#isStopping) return;
    if (!/^[!-~ ]{1,128}$/.test(command.id)) {
      this.#options.log.warn("ignored a command without a usable id");
      return;
    }
    const ended = this.#options.record.outcome(command.id);
    if (ended !== null) this.#report(command.id, ended);
    else if (this.#isOpen(command.id)) this.#acknowledge(command.id);
    else this.#accept(command);
  }

  /** A cancelled command never starts, and stops if it runs; one that has ended is reported again. */
  cancel(id: string): void {
    const ended = this.#options.record.outcome(id);
    if (ended !== null) this.#report(id, ended);
    else if (this.#running?.id === id) this.#running.abort.abort(new Ending(CANCELLED));
    else {
      const index = this.#queue.findIndex((queued) => queued.id === id);
      if (index >= 0) this.#queue.splice(index, 1);
      this.#end(id, CANCELLED);
    }
  }

  /** Cuts off what runs, so that it is recorded and reported as interrupted, and takes nothing more. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#queue.length = 0;
    this.#running?.abort.abort(new Ending(failure("INTERRUPTED", "command_interrupted", "The agent was stopped.")));
    await this.#running?.done;
  }

  #isOpen(id: string): boolean {
    return this.#running?.id === id || this.#queue.some((queued) => queued.id === id);
  }

  #accept(command: Command): void {
    const { id, type } = command;
    const name = commandTypeName(type);
    const work = this.#options.interpret(command);
    if (work === null) {
      this.#options.log.warn({ command_id: id, type: name }, "command refused");
      this.#end(
        id,
        failure("REFUSED", "command_refused", `This agent does not know the command ${name} or its payload.`),
      );
      return;
    }
    if (!this.#canRecord(id, () => this.#options.record.received(id))) return;
    this.#acknowledge(id);
    if (type === CommandType.STOP) this.#preempt();
    this.#queue.push({ id, type, work, startBy: this.#options.now() + Number(command.remainingTtlMs) });
    this.#next();
  }

  /** STOP makes everything before it pointless; a STOP that runs already goes on. */
  #preempt(): void {
    for (const { id } of this.#queue.splice(0))
      this.#end(id, failure("CANCELLED", "command_cancelled", "Superseded by STOP."));
    if (this.#running === null || this.#running.type === CommandType.STOP) return;
    this.#running.abort.abort(new Ending(failure("INTERRUPTED", "command_interrupted", "Pre-empted by STOP.")));
  }

  #next(): void {
    while (this.#running === null) {
      const next = this.#queue.shift();
      if (next === undefined) return;
      if (this.#options.now() < next.startBy) this.#start(next);
      else this.#end(next.id, failure("EXPIRED", "command_expired", "The command's time to live had passed."));
    }
  }

  #start({ id, type, work }: Queued): void {
    const { record, log, send, stallCheckMs, now } = this.#options;
    if (!this.#canRecord(id, () => record.started(id))) return;
    log.info({ command_id: id, type: commandTypeName(type) }, "command started");
    const abort = new AbortController();
    const reporter = new ProgressReporter({ commandId: id, send, stallCheckMs, now });
    const { promise: done, resolve } = Promise.withResolvers<void>();
    this.#running = { id, type, abort, reporter, done };
    void outcomeOf(work, { signal: abort.signal, onProgress: (progress) => reporter.take(progress) }, log).then(
      (outcome) => {
        reporter.stop();
        this.#running = null;
        this.#end(id, outcome);
        resolve();
        this.#next();
      },
    );
  }

  /** What cannot be recorded must not take effect. */
  #canRecord(id: string, write: () => void): boolean {
    try {
      write();
      return true;
    } catch (error) {
      this.#options.log.error({ err: error, command_id: id }, "the command record cannot be written");
      this.#report(id, failure("FAILED", "disk_full", "The agent's state directory cannot be written."));
      return false;
    }
  }

  #end(id: string, outcome: Outcome): void {
    try {
      this.#options.record.ended(id, outcome);
    } catch (error) {
      // The outcome is told now; after a crash the record will say that the command was interrupted.
      this.#options.log.error({ err: error, command_id: id }, "the command record cannot be written");
    }
    const result = outcome.ok ? "completed" : outcome.kind;
    this.#options.log.info(
      { command_id: id, result, ...(outcome.ok ? {} : { code: outcome.code, reason: outcome.message }) },
      "command ended",
    );
    this.#report(id, outcome);
  }

  #acknowledge(commandId: string): void {
    this.#options.send({ body: { case: "commandAcknowledged", value: { commandId } } });
    if (this.#running?.id === commandId) this.#running.reporter.repeat();
  }

  #report(commandId: string, outcome: Outcome): void {
    if (outcome.ok) {
      this.#options.send({
        body: { case: "commandCompleted", value: { commandId, metadata: { ...outcome.metadata } } },
      });
      return;
    }
    const { code, message } = outcome;
    this.#options.send({
      body: { case: "commandFailed", value: { commandId, kind: FailureKind[outcome.kind], code, message } },
    });
  }
}

/** Work that ends well in spite of an abort has ended well; work that fails after one has failed because of it. */
async function outcomeOf(work: Work, context: CommandContext, log: Logger): Promise<Outcome> {
  try {
    return { ok: true, metadata: await work(context) };
  } catch (error) {
    const reason: unknown = context.signal.reason;
    if (context.signal.aborted && reason instanceof Ending) return reason.outcome;
    if (!(error instanceof OrreryError)) log.error({ err: error }, "command failed unexpectedly");
    const { code, message } = toErrorData(error);
    return failure("FAILED", code === "internal" ? "command_failed" : code, message);
  }
}

function failure(kind: FailedKind, code: ErrorCode, message: string): Outcome & { readonly ok: false } {
  return { ok: false, kind, code, message: message.slice(0, MESSAGE_LENGTH) };
}

const CANCELLED = failure("CANCELLED", "command_cancelled", "The command was cancelled.");
