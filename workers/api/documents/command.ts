import { z } from "@hono/zod-openapi";
import { COMMAND_STATES, type CommandView } from "../../../domain/node/command.ts";
import { instant, maybeInstant, msToInstant, msToMaybeInstant } from "../fields.ts";

const progressSchema = z.strictObject({
  step: z.string(),
  step_index: z.int(),
  step_count: z.int(),
  done: z.number(),
  total: z.number(),
  at: instant,
});

export const commandSchema = z
  .strictObject({
    id: z.string(),
    type: z.string(),
    state: z.enum(COMMAND_STATES),
    cancel_requested: z.boolean(),
    stalled: z.boolean(),
    progress: progressSchema.nullable(),
    requested_by: z.string(),
    created_at: instant,
    expires_at: instant,
    sent_at: maybeInstant,
    acknowledged_at: maybeInstant,
    ended_at: maybeInstant,
    code: z.string().nullable(),
    message: z.string().nullable(),
    metadata: z.record(z.string(), z.string()),
  })
  .openapi("Command");

export function toCommand(view: CommandView): z.output<typeof commandSchema> {
  const { progress } = view;
  return {
    id: view.commandId,
    type: view.type,
    state: view.state,
    cancel_requested: view.cancelRequested,
    stalled: view.stalled,
    progress:
      progress === null
        ? null
        : {
            step: progress.step,
            step_index: progress.stepIndex,
            step_count: progress.stepCount,
            done: progress.done,
            total: progress.total,
            at: msToInstant(progress.at),
          },
    requested_by: view.requestedBy,
    created_at: msToInstant(view.createdAt),
    expires_at: msToInstant(view.expiresAt),
    sent_at: msToMaybeInstant(view.sentAt),
    acknowledged_at: msToMaybeInstant(view.acknowledgedAt),
    ended_at: msToMaybeInstant(view.endedAt),
    code: view.code,
    message: view.message,
    metadata: { ...view.metadata },
  };
}
