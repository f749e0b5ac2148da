import type { SagaWorkflow } from "../../domain/saga/ids.ts";
import type { SagaParams } from "./params.ts";

/**
 * The engine names its refusals only inside the message, as `(instance.not_found) …` locally and
 * `workflows.api.error.instance.not_found` in production; this module is the one place that reads them.
 */
const NOT_FOUND = "instance.not_found";
const ALREADY_EXISTS = "instance.already_exists";

function workflowOf(env: Env, workflow: SagaWorkflow): Workflow<SagaParams> {
  const bindings: Readonly<Record<SagaWorkflow, Workflow<SagaParams>>> = {
    "provision-node": env.PROVISION_NODE,
    "terminate-node": env.TERMINATE_NODE,
    "reenroll-node": env.REENROLL_NODE,
  };
  return bindings[workflow];
}

/** The engine's status of an instance, null when it has none. */
export async function instanceStatus(env: Env, workflow: SagaWorkflow, id: string): Promise<string | null> {
  try {
    const instance = await workflowOf(env, workflow).get(id);
    return (await instance.status()).status;
  } catch (thrown) {
    if (says(thrown, NOT_FOUND)) return null;
    throw thrown;
  }
}

/**
 * Makes sure that a saga's instance runs: creates it, or where the engine has one, starts it again if it is over.
 * Call it after the `sagas` row is committed; the sweep calls it for rows that were left.
 */
export async function startInstance(env: Env, workflow: SagaWorkflow, id: string, params: SagaParams): Promise<void> {
  try {
    await workflowOf(env, workflow).create({ id, params });
    return;
  } catch (thrown) {
    if (!says(thrown, ALREADY_EXISTS)) throw thrown;
  }
  const status = await instanceStatus(env, workflow, id);
  if (status === "errored" || status === "terminated" || status === "complete")
    await restartInstance(env, workflow, id);
}

/** Runs an instance that is over from its beginning; its steps find what they did before. */
export async function restartInstance(env: Env, workflow: SagaWorkflow, id: string): Promise<void> {
  const instance = await workflowOf(env, workflow).get(id);
  await instance.restart();
}

/** Wakes a saga that waits for this type of event; one that is over or never was has nothing to be told. */
export async function sendEventIfRunning(env: Env, workflow: SagaWorkflow, id: string, type: string): Promise<void> {
  const status = await instanceStatus(env, workflow, id);
  if (status === null || status === "errored" || status === "terminated" || status === "complete") return;
  const instance = await workflowOf(env, workflow).get(id);
  await instance.sendEvent({ type, payload: {} });
}

function says(thrown: unknown, reason: string): boolean {
  return thrown instanceof Error && thrown.message.includes(reason);
}
