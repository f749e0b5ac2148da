import { DEFAULTS } from "../../domain/defaults.ts";
import type { StepProgress } from "../recipe/runner.ts";
import type { AgentBodyInit } from "../session/messages.ts";
import { StallWatch } from "./stall.ts";

/** Progress within a step is told at most this often. */
const EVERY_MS = 1_000;

export interface ProgressReporterOptions {
  readonly commandId: string;
  readonly send: (body: AgentBodyInit) => void;
  readonly stallCheckMs: number;
  readonly now: () => number;
}

/** Tells the control plane how far a running command is, and, when it no longer moves, that it is stalled. */
export class ProgressReporter {
  readonly #options: ProgressReporterOptions;
  readonly #watch = new StallWatch(DEFAULTS.command.agentStallChecks);
  readonly #timer: NodeJS.Timeout;
  #latest: StepProgress = { step: "", stepIndex: 0, stepCount: 0, done: 0, total: 0 };
  #sentAt = Number.NEGATIVE_INFINITY;
  #sentStep = -1;
  #sentTotal = 0;
  #isStalled = false;

  constructor(options: ProgressReporterOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#check(), options.stallCheckMs);
  }

  take(progress: StepProgress): void {
    this.#latest = progress;
    const now = this.#options.now();
    const isNews = progress.stepIndex !== this.#sentStep || progress.total !== this.#sentTotal;
    if (isNews || now - this.#sentAt >= EVERY_MS) this.#send();
  }

  /** Tells the latest again, for a control plane that has just reconnected. */
  repeat(): void {
    if (this.#sentStep >= 0) this.#send();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Every look at a stalled command is a report: the control plane counts them. */
  #check(): void {
    const { stepIndex, done } = this.#latest;
    const wasStalled = this.#isStalled;
    this.#isStalled = this.#watch.look(`${stepIndex}:${done}`);
    if (this.#isStalled || wasStalled) this.#send();
  }

  #send(): void {
    const { done, total, ...step } = this.#latest;
    this.#sentAt = this.#options.now();
    this.#sentStep = step.stepIndex;
    this.#sentTotal = total;
    const value = {
      commandId: this.#options.commandId,
      ...step,
      done: BigInt(done),
      total: BigInt(total),
      stalled: this.#isStalled,
    };
    this.#options.send({ body: { case: "commandProgress", value } });
  }
}
