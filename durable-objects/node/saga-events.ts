import { z } from "zod";
import type { SagaWait } from "../../domain/node/node.ts";
import { errorText, log } from "../shared/log.ts";
import { sagaWaitSchema } from "./columns.ts";

/** What a waiting saga is told: never the result itself, which it reads from the object. */
export const sagaEventSchema = z.object({
  wait: sagaWaitSchema,
  payload: z.record(z.string(), z.union([z.string(), z.number()])),
});
export type SagaEvent = z.output<typeof sagaEventSchema>;

/** After this many failures nobody waits any more: the saga's own timeout and the sweep have taken over. */
const ATTEMPTS = 12;

export function sagaEventKey({ workflow, instanceId, eventType }: SagaWait): string {
  return `${workflow}/${instanceId}/${eventType}`;
}

/**
 * Sends the event until the engine has taken it; a saga that has ended needs none.
 * @throws when the engine did not take it and it should be tried again
 */
export async function sendSagaEvent(env: Env, event: SagaEvent, attempts: number): Promise<void> {
  const { workflow, instanceId, eventType } = event.wait;
  try {
    const instance = await workflows(env)[workflow].get(instanceId);
    if (await hasEnded(instance)) return;
    await instance.sendEvent({ type: eventType, payload: event.payload });
  } catch (thrown) {
    if (attempts + 1 < ATTEMPTS) throw thrown;
    log("warn", "saga event given up", { workflow, instanceId, eventType, error: errorText(thrown) });
  }
}

async function hasEnded(instance: WorkflowInstance): Promise<boolean> {
  const { status } = await instance.status();
  return status === "complete" || status === "terminated";
}

function workflows(env: Env): Readonly<Record<SagaWait["workflow"], Workflow>> {
  return {
    "provision-node": env.PROVISION_NODE,
    "terminate-node": env.TERMINATE_NODE,
    "reenroll-node": env.REENROLL_NODE,
  };
}
