import { log } from "../../durable-objects/shared/log.ts";
import { type ConsumerDeps, consumerDeps } from "./deps.ts";
import { consumeHealthEvents } from "./health-events.ts";
import { consumeDeadHealthEvents } from "./health-events-dead.ts";

/** The consumer of each queue. */
const CONSUMERS: Readonly<Record<string, (batch: MessageBatch, deps: ConsumerDeps) => Promise<void>>> = {
  "health-events": consumeHealthEvents,
  "health-events-dead": consumeDeadHealthEvents,
};

/** The Worker's `queue` handler. */
export async function handleQueue(batch: MessageBatch, env: Env): Promise<void> {
  const consume = CONSUMERS[batch.queue];
  if (consume === undefined) {
    log("error", "queue without a consumer", { queue: batch.queue });
    batch.retryAll();
    return;
  }
  await consume(batch, consumerDeps(env));
}
