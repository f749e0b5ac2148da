import { z } from "zod";

/** What is said between a test and the process that plays its agents. */

const agentSchema = z.object({ nodeId: z.string(), generation: z.number(), nodeToken: z.string() });

const startSchema = z.object({
  kind: z.literal("start"),
  agents: z.array(agentSchema),
  /** How many agents begin in a second. */
  perSecond: z.number(),
  masterSecret: z.string(),
  controlUrl: z.string(),
  /** The way that is tried first; null for the direct one. */
  bridge: z.object({ url: z.string(), mode: z.enum(["stream", "unary"]) }).nullable(),
});

export const askSchema = z.object({
  id: z.number(),
  ask: z.discriminatedUnion("kind", [
    startSchema,
    z.object({ kind: z.literal("read") }),
    z.object({ kind: z.literal("release") }),
    z.object({ kind: z.literal("stop") }),
  ]),
});
export type Ask = z.output<typeof askSchema>["ask"];
export type StartAsk = z.output<typeof startSchema>;

const recordSchema = z.object({
  nodeId: z.string(),
  beatsSent: z.number(),
  beatsAnswered: z.number(),
  beatsLate: z.number(),
  failedAttempts: z.number(),
  sessions: z.array(
    z.object({
      way: z.string(),
      dialledAt: z.number(),
      welcomedAt: z.number(),
      endedAt: z.number().nullable(),
      reason: z.string().nullable(),
    }),
  ),
  executions: z.record(z.string(), z.number()),
  runningIds: z.array(z.string()),
});
/** One agent's account of itself. */
export type AgentRecord = z.output<typeof recordSchema>;

export const answerSchema = z.object({
  id: z.number(),
  /** Null when it went well. */
  problem: z.string().nullable(),
  records: z.array(recordSchema),
});
export type Answer = z.output<typeof answerSchema>;
