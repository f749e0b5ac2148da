import { type SagaWorkflow, TOUCH_EVENT } from "../../domain/saga/ids.ts";
import type { InfrastructureProvider } from "../../integrations/infrastructure/provider.ts";
import { configuredProviders } from "../../integrations/infrastructure/registry.ts";
import { type SagaDeps, sagaDeps } from "../workflows/deps.ts";
import { instanceStatus, restartInstance, sendEventIfRunning, startInstance } from "../workflows/engine.ts";

/** What sweeps reach of the world: all that sagas do, and the engine itself. */
export interface SweepDeps extends SagaDeps {
  /** Every provider that this deployment has set up. */
  providers(): readonly InfrastructureProvider[];
  /** The engine's status of an instance, null when it has none. */
  instanceStatus(workflow: SagaWorkflow, id: string): Promise<string | null>;
  startInstance(workflow: SagaWorkflow, id: string, nodeId: string): Promise<void>;
  restartInstance(workflow: SagaWorkflow, id: string): Promise<void>;
  /** Makes the engine load an instance that sleeps though it should run. */
  touchInstance(workflow: SagaWorkflow, id: string): Promise<void>;
}

/** What a sweep did, by name: one structured line each, and numbers for tests. */
export type SweepCounts = Readonly<Record<string, number>>;

export function sweepDeps(env: Env): SweepDeps {
  const deps = sagaDeps(env);
  return {
    ...deps,
    providers: () => configuredProviders(deps.config),
    instanceStatus: (workflow, id) => instanceStatus(env, workflow, id),
    startInstance: (workflow, id, nodeId) => startInstance(env, workflow, id, { nodeId }),
    restartInstance: (workflow, id) => restartInstance(env, workflow, id),
    touchInstance: (workflow, id) => sendEventIfRunning(env, workflow, id, TOUCH_EVENT),
  };
}
