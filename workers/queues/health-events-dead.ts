import { insertDeadLetter } from "../../db/dead-letters.ts";
import { errorText, log } from "../../durable-objects/shared/log.ts";
import type { ConsumerDeps } from "./deps.ts";

/** Queue `health-events-dead`: what was tried too often is filed where a person sees it, before the queue forgets it. */
export async function consumeDeadHealthEvents(batch: MessageBatch, deps: ConsumerDeps): Promise<void> {
  for (const message of batch.messages) {
    const letter = {
      tenant: deps.config.TENANT,
      queue: batch.queue,
      body: message.body,
      reason: "the message failed too often",
    };
    try {
      await deps.database((db) => insertDeadLetter(db, letter, new Date(deps.now())));
      message.ack();
    } catch (thrown) {
      log("error", "dead message not filed", { queue: batch.queue, message: message.id, error: errorText(thrown) });
      message.retry();
    }
  }
}
