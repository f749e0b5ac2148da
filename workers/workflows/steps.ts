import type { WorkflowStep } from "cloudflare:workers";
import { DEFAULTS } from "../../domain/defaults.ts";
import type { SagaStepName } from "../../domain/saga/steps.ts";
import type { SagaDeps, SagaRef } from "./deps.ts";
import { failureOf, isPlatformReset, SagaFailure } from "./failures.ts";
import { type Activity, runRecorded, type StepOutcome, type StepReport } from "./step-record.ts";

/** Retries of a step: DEFAULTS.saga.step, or criticalStep where giving up would leave something behind. */
export type StepPolicy = "step" | "criticalStep";

/** How a step waits for something that an event announces. */
export interface SettleWait {
  readonly eventType: string;
  readonly roundMs: number;
  readonly limitMs: number;
  readonly look: Activity;
  /** After the time is up: settles, or throws why it never did. */
  readonly lastLook: Activity;
}

/**
 * A saga's steps as the engine runs them: named, with explicit retries, each with its row in `saga_steps`. An expected
 * failure comes back as a value, because a thrown one would lose its code on the way through the engine; a throw inside
 * a step only asks for another try.
 */
export class SagaSteps {
  readonly #step: WorkflowStep;
  readonly #saga: SagaRef;
  readonly #deps: SagaDeps;

  constructor(step: WorkflowStep, saga: SagaRef, deps: SagaDeps) {
    this.#step = step;
    this.#saga = saga;
    this.#deps = deps;
  }

  /** Runs a step and answers how it went. */
  async attempt(name: SagaStepName, activity: Activity, policy: StepPolicy = "step"): Promise<StepOutcome> {
    const { limit } = DEFAULTS.saga[policy];
    // The engine would try longer than the policy says, for the sake of a database that is away: that is our own
    // fault, which must not end what a provider and an agent have begun well. See `runRecorded`.
    try {
      return await this.#step.do<StepOutcome>(name, engineConfig(DEFAULTS.saga.criticalStep), ({ attempt }) =>
        runRecorded(this.#deps, this.#saga, name, { attempt, isLast: attempt > limit }, activity),
      );
    } catch (thrown) {
      if (isPlatformReset(thrown)) throw thrown;
      // Every try threw: it timed out, or not even its row could be written.
      return { ok: false, ...failureOf(thrown) };
    }
  }

  /** @throws SagaFailure when the step failed for good */
  async must(name: SagaStepName, activity: Activity, policy: StepPolicy = "step"): Promise<StepReport> {
    const outcome = await this.attempt(name, activity, policy);
    if (!outcome.ok) throw new SagaFailure(name, outcome);
    return outcome;
  }

  /**
   * Looks at the truth, and while it is pending waits for the event that says it has changed. The event is only a
   * wake-up: it may be early, doubled or lost, so the truth is read again after each round.
   */
  async settle(name: SagaStepName, wait: SettleWait): Promise<StepOutcome> {
    const rounds = Math.max(1, Math.ceil(wait.limitMs / wait.roundMs));
    for (let round = 0; round < rounds; round += 1) {
      const outcome = await this.attempt(name, wait.look);
      if (!outcome.ok || outcome.status !== "pending") return outcome;
      await this.waitForEvent(`${name} event`, wait.eventType, Math.min(wait.roundMs, wait.limitMs));
    }
    return this.attempt(name, wait.lastLook);
  }

  /** @throws SagaFailure when it failed, or never settled */
  async mustSettle(name: SagaStepName, wait: SettleWait): Promise<void> {
    const outcome = await this.settle(name, wait);
    if (!outcome.ok) throw new SagaFailure(name, outcome);
  }

  /** Waits for an event or until the time is up; which of both says nothing that the truth does not say better. */
  async waitForEvent(name: string, type: string, timeoutMs: number): Promise<void> {
    try {
      await this.#step.waitForEvent(name, { type, timeout: timeoutMs });
    } catch (thrown) {
      if (isPlatformReset(thrown)) throw thrown;
    }
  }

  /** A step of the saga's own housekeeping, without a row. @throws what it threw at its last try */
  async quiet(name: string, activity: () => Promise<string>): Promise<string> {
    return this.#step.do<string>(name, engineConfig(DEFAULTS.saga.criticalStep), activity);
  }
}

function engineConfig({ limit, delayMs, timeoutMs }: { limit: number; delayMs: number; timeoutMs: number }) {
  return { retries: { limit, delay: delayMs, backoff: "exponential" as const }, timeout: timeoutMs };
}
