import { z } from "zod";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { callNode } from "../../../durable-objects/shared/stubs.ts";

const wakeUpSchema = z.object({ nodeId: z.uuid() });

/** How many events of each kind outboxes have held; changes of state by the state that was entered. */
const seen: Record<string, number> = {};

export function seenEvents(): Readonly<Record<string, number>> {
  return seen;
}

/** Reads outboxes as the product's consumer does, and only counts what they say: no database stands in a bench's way. */
export async function drainQuietly(batch: MessageBatch, env: Env): Promise<void> {
  for (const message of batch.messages) {
    const { nodeId } = wakeUpSchema.parse(message.body);
    const { incarnation, events } = await callNode(env, nodeId, (node) =>
      node.readOutbox(0, DEFAULTS.node.outboxBatch),
    );
    const last = events.at(-1);
    if (last === undefined) continue;
    await callNode(env, nodeId, (node) => node.purgeOutbox(incarnation, last.position));
    for (const { body } of events) {
      const name = body.kind === "state_changed" ? `state_changed to ${body.to}` : body.kind;
      seen[name] = (seen[name] ?? 0) + 1;
    }
  }
}
