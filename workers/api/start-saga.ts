import type { SagaWorkflow } from "../../domain/saga/ids.ts";
import { errorText, log } from "../../durable-objects/shared/log.ts";
import { startInstance } from "../workflows/engine.ts";
import type { ApiContext } from "./context.ts";

/**
 * Starts the saga whose row has just been committed. The row is what counts: when the engine cannot be reached the
 * answer stands, and the sweep starts the saga within a minute.
 */
export async function startSaga(c: ApiContext, workflow: SagaWorkflow, id: string, nodeId: string): Promise<void> {
  try {
    await startInstance(c.env, workflow, id, { nodeId });
  } catch (thrown) {
    const correlation_id = c.get("correlationId");
    log("warn", "saga left to the sweep", { correlation_id, saga_id: id, error: errorText(thrown) });
  }
}
