import { z } from "zod";
import { insertDeadLetter } from "../../db/dead-letters.ts";
import { errorCodeOf } from "../../domain/errors.ts";
import { errorText, log } from "../../durable-objects/shared/log.ts";
import type { ConsumerDeps } from "./deps.ts";
import { drainOutbox } from "./drain-outbox.ts";

/** A wake-up: which node has something to say, and nothing of what it says. */
const wakeUpSchema = z.object({ nodeId: z.uuid() });

/** The queue's longest delay is 12 h; a passing fault is over long before. */
const RETRY_SECONDS = { first: 2, most: 300 } as const;

/**
 * Queue `health-events`. Messages come in any order, doubled, and to several consumers at once; each names a node, whose
 * outbox is then read in its own order. Every message is answered for itself: one that fails holds up no other.
 */
export async function consumeHealthEvents(batch: MessageBatch, deps: ConsumerDeps): Promise<void> {
  const drained = new Map<string, Promise<number>>();
  for (const message of batch.messages) await consume(message, batch.queue, deps, drained);
}

async function consume(
  message: Message,
  queue: string,
  deps: ConsumerDeps,
  drained: Map<string, Promise<number>>,
): Promise<void> {
  try {
    const wakeUp = wakeUpSchema.safeParse(message.body);
    if (!wakeUp.success) {
      await park(message, queue, deps, z.prettifyError(wakeUp.error));
      return;
    }
    const { nodeId } = wakeUp.data;
    // One drain answers for every wake-up of the node that was sent before it began.
    const drain = drained.get(nodeId) ?? drainOutbox(deps, nodeId);
    drained.set(nodeId, drain);
    await drain;
    message.ack();
  } catch (thrown) {
    await retryOrPark(message, queue, deps, thrown);
  }
}

async function retryOrPark(message: Message, queue: string, deps: ConsumerDeps, thrown: unknown): Promise<void> {
  log("warn", "health event not handled", { queue, message: message.id, error: errorText(thrown) });
  const delaySeconds = Math.min(RETRY_SECONDS.first * 2 ** message.attempts, RETRY_SECONDS.most);
  if (errorCodeOf(thrown) !== "node_not_found") {
    message.retry({ delaySeconds });
    return;
  }
  try {
    await park(message, queue, deps, `node_not_found: ${errorText(thrown)}`);
  } catch {
    // Postgres is away; the message comes again.
    message.retry({ delaySeconds });
  }
}

async function park(message: Message, queue: string, deps: ConsumerDeps, reason: string): Promise<void> {
  const letter = { tenant: deps.config.TENANT, queue, body: message.body, reason };
  await deps.database((db) => insertDeadLetter(db, letter, new Date(deps.now())));
  log("error", "message parked", { queue, message: message.id, reason });
  message.ack();
}
