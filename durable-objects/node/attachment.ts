import { z } from "zod";
import { assertSize } from "../shared/limits.ts";

const sightingSchema = z.object({
  commandId: z.string(),
  seenAt: z.number(),
  misses: z.number(),
  missedAt: z.number().nullable(),
});

/**
 * What a socket remembers across hibernation; it costs no row and is gone with the socket. Read through the schema each
 * time, because an older version of this code may have written it.
 */
const attachmentSchema = z.discriminatedUnion("phase", [
  z.object({ phase: z.literal("greeting"), generation: z.number(), acceptedAt: z.number() }),
  z.object({
    phase: z.literal("open"),
    generation: z.number(),
    installationId: z.string(),
    sessionEpoch: z.number(),
    openedAt: z.number(),
    /** The newest frame; beats answered without waking us are newer. */
    heardAt: z.number(),
    /** The commands that the agent has in hand. */
    sightings: z.array(sightingSchema),
  }),
]);

export type Attachment = z.output<typeof attachmentSchema>;
export type OpenAttachment = Extract<Attachment, { phase: "open" }>;

export function readAttachment(socket: WebSocket): Attachment | null {
  const parsed = attachmentSchema.safeParse(socket.deserializeAttachment());
  return parsed.success ? parsed.data : null;
}

export function writeAttachment(socket: WebSocket, attachment: Attachment): void {
  assertSize("attachment", JSON.stringify(attachment));
  socket.serializeAttachment(attachment);
}
