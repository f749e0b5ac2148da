import type { WorkflowStep, WorkflowStepConfig } from "cloudflare:workers";
import { describe, it } from "vitest";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { type ErrorCode, OrreryError } from "../../../domain/errors.ts";
import type { SagaDeps, SagaRef } from "../../../workers/workflows/deps.ts";
import { succeeded } from "../../../workers/workflows/step-record.ts";
import { SagaSteps } from "../../../workers/workflows/steps.ts";

const SAGA: SagaRef = { id: "provision-node-x", workflow: "provision-node", nodeId: "x" };

/** An engine that tries again at once, as often as the step's configuration says. */
function engine(): WorkflowStep {
  const run = async (_name: string, config: WorkflowStepConfig, work: (context: { attempt: number }) => unknown) => {
    const limit = config.retries?.limit ?? 0;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await work({ attempt });
      } catch (thrown) {
        if (attempt > limit) throw thrown;
      }
    }
  };
  return Object.assign(Object.create(null), { do: run });
}

/** A world whose database is away for the first `away` units of work. */
function world(away: number): SagaDeps {
  let asked = 0;
  const database = async () => {
    asked += 1;
    if (asked <= away) throw new OrreryError("database_unavailable", "Postgres could not be reached.");
  };
  return Object.assign(Object.create(null), { database, now: () => 0 });
}

function failing(code: ErrorCode, times: number) {
  let tries = 0;
  return {
    get tries() {
      return tries;
    },
    activity: async () => {
      tries += 1;
      if (tries <= times) throw new OrreryError(code, "Not now.", { retryable: true });
      return succeeded(null);
    },
  };
}

describe("a step of a saga", () => {
  const { step, criticalStep } = DEFAULTS.saga;

  it("outlasts a database that is away for longer than the step's own retries", async ({ expect }) => {
    const once = failing("internal", 0);
    const steps = new SagaSteps(engine(), SAGA, world(step.limit + 4));
    expect(await steps.attempt("RunTerraform", once.activity)).toMatchObject({ ok: true });
    expect(once.tries).toBe(1);
  });

  it("outlasts it also where the work itself needs the database", async ({ expect }) => {
    const work = failing("database_unavailable", step.limit + 4);
    const steps = new SagaSteps(engine(), SAGA, world(0));
    expect(await steps.attempt("RunTerraform", work.activity)).toMatchObject({ ok: true });
  });

  it("gives up on a provider after the step's own retries", async ({ expect }) => {
    const work = failing("provider_error", Number.POSITIVE_INFINITY);
    const steps = new SagaSteps(engine(), SAGA, world(0));
    expect(await steps.attempt("RunTerraform", work.activity)).toMatchObject({ ok: false, code: "provider_error" });
    expect(work.tries).toBe(step.limit + 1);
  });

  it("gives up on the database in the end", async ({ expect }) => {
    const steps = new SagaSteps(engine(), SAGA, world(Number.POSITIVE_INFINITY));
    expect(await steps.attempt("RunTerraform", failing("internal", 0).activity)).toMatchObject({ ok: false });
    expect(criticalStep.limit).toBeGreaterThan(step.limit + 4);
  });
});
