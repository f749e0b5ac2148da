import { z } from "zod";
import { assertSize } from "../shared/limits.ts";

const sightingSchema = z.object({
  commandId: z.string(),
  seenAt: z.number(),
  misses: z.number(),
  missedAt: z.number().nullable(),
});

/** What the ticket was made for, as the Worker has verified it. */
const ticket = { generation: z.number(), installationId: z.string(), sessionEpoch: z.number() };

/** MAC keys of the two directions, in hex, and the control key that speaks in this session. */
const keys = { agentKey: z.string(), controlKey: z.string(), keyId: z.string() };

/**
 * What a socket remembers across hibernation; it costs no row and is gone with the socket. Read through the schema each
 * time, because an older version of this code may have written it.
 */
const attachmentSchema = z.discriminatedUnion("phase", [
  z.object({ phase: z.literal("greeting"), ...ticket, acceptedAt: z.number() }),
  z.object({
    phase: z.literal("challenged"),
    ...ticket,
    acceptedAt: z.number(),
    /** The Hello's bytes, base64. */
    hello: z.string(),
    keyId: z.string(),
    /** Our half of the session's exchange, and what both sides have seen so far; hex. */
    exchangeSecret: z.string(),
    handshake: z.string(),
  }),
  z.object({
    phase: z.literal("contending"),
    ...ticket,
    ...keys,
    /** When the session's holder was asked whether it is alive. */
    since: z.number(),
    /** What tells that question from others. */
    question: z.number(),
    hello: z.string(),
    /** The Opening's bytes, base64. */
    opening: z.string(),
  }),
  z.object({
    phase: z.literal("open"),
    ...ticket,
    ...keys,
    /** Counters of the newest frames. */
    received: z.number(),
    sent: z.number(),
    openedAt: z.number(),
    /** The newest frame; beats answered without waking us are newer. */
    heardAt: z.number(),
    /** The commands that the agent has in hand. */
    sightings: z.array(sightingSchema),
  }),
]);

export type Attachment = z.output<typeof attachmentSchema>;
export type GreetingAttachment = Extract<Attachment, { phase: "greeting" }>;
export type ChallengedAttachment = Extract<Attachment, { phase: "challenged" }>;
export type ContendingAttachment = Extract<Attachment, { phase: "contending" }>;
export type OpenAttachment = Extract<Attachment, { phase: "open" }>;

export function readAttachment(socket: WebSocket): Attachment | null {
  const parsed = attachmentSchema.safeParse(socket.deserializeAttachment());
  return parsed.success ? parsed.data : null;
}

export function writeAttachment(socket: WebSocket, attachment: Attachment): void {
  assertSize("attachment", JSON.stringify(attachment));
  socket.serializeAttachment(attachment);
}

/**
 * Changes a part of an open session's attachment as it is at this moment: a copy read before a frame was sent has an
 * old counter, so none is ever written back. Answers the attachment as written; null where there is no open session.
 */
export function editSession(
  socket: WebSocket,
  edit: (session: OpenAttachment) => Partial<OpenAttachment>,
): OpenAttachment | null {
  const attachment = readAttachment(socket);
  if (attachment?.phase !== "open") return null;
  const edited = { ...attachment, ...edit(attachment) };
  writeAttachment(socket, edited);
  return edited;
}
