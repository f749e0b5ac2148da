import { parseConfig } from "../../domain/config.ts";
import type { SagaWorkflow } from "../../domain/saga/ids.ts";
import type { NodeContract } from "../../durable-objects/node/contract.ts";
import { callNode } from "../../durable-objects/shared/stubs.ts";
import type { InfrastructureProvider } from "../../integrations/infrastructure/provider.ts";
import { providerByName } from "../../integrations/infrastructure/registry.ts";
import { readChainFiles } from "../chain-files.ts";
import { type KeyDeps, keyDeps } from "../node-keys/deps.ts";
import { instanceStatus, sendEventIfRunning } from "./engine.ts";

/** Which run of which saga an activity works for. */
export interface SagaRef {
  readonly id: string;
  readonly workflow: SagaWorkflow;
  readonly nodeId: string;
}

/** A saga that brings the agent of one generation to work. */
export interface AgentSaga extends SagaRef {
  readonly generation: number;
}

/** All that activities reach of the world. */
export interface SagaDeps extends KeyDeps {
  node<T>(nodeId: string, call: (node: NodeContract) => Promise<T>): Promise<T>;
  provider(name: string): InfrastructureProvider;
  chainFiles(chain: string, contentHash: string): Promise<Readonly<Record<string, string>>>;
  /** Wakes another saga of the node, if it waits. */
  wake(workflow: SagaWorkflow, id: string, eventType: string): Promise<void>;
  /** Looks at a saga's instance, which wakes one that sleeps since the runtime was killed. */
  touch(workflow: SagaWorkflow, id: string): Promise<void>;
}

export function sagaDeps(env: Env): SagaDeps {
  const config = parseConfig(env);
  return {
    ...keyDeps(env, config),
    node: (nodeId, call) => callNode(env, nodeId, call),
    provider: (name) => providerByName(name, config),
    chainFiles: (chain, contentHash) => readChainFiles(env.CHAINS, config.TENANT, chain, contentHash),
    wake: (workflow, id, eventType) => sendEventIfRunning(env, workflow, id, eventType),
    touch: async (workflow, id) => {
      await instanceStatus(env, workflow, id);
    },
  };
}
