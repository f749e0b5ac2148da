import { z } from "@hono/zod-openapi";
import type { NodeEventRow } from "../../../db/nodes.ts";
import { keyFingerprint } from "../../../domain/identity/fingerprint.ts";
import type { NodeEventBody } from "../../../domain/node/node.ts";
import { instant, msToInstant, toInstant, uuid } from "../fields.ts";

/** What each kind tells of; a newer deployment's rows may have kinds beyond these. */
const KINDS: Readonly<Record<NodeEventBody["kind"], string>> = {
  state_changed: "the node moved from one state to another",
  dimension_changed: "its application health or sync status changed",
  listening_gap: "nobody was listening between these instants, so silence proves nothing",
  agent_enrolled: "an installation's keys were bound to its generation",
  agent_connected: "the agent has a session",
  agent_disconnected: "the agent's session ended",
  agent_refused: "somebody was turned away, or a frame was not believed; at most once a minute for each code",
  tampering_reported: "the agent met something between it and us that altered what passes",
  command_changed: "a command came into another state",
  endpoints_changed: "the chain node's addresses changed",
};

export const nodeEventSchema = z
  .strictObject({
    id: uuid,
    kind: z.string().openapi({
      description: Object.entries(KINDS)
        .map(([kind, meaning]) => `\`${kind}\`: ${meaning}.`)
        .join(" "),
    }),
    occurred_at: instant,
    body: z.record(z.string(), z.unknown()).openapi({ description: "What changed; the members depend on `kind`." }),
  })
  .openapi("NodeEvent");

const stored = z.record(z.string(), z.unknown());

export function toNodeEvent(row: NodeEventRow): z.output<typeof nodeEventSchema> {
  const { kind: _kind, ...body } = stored.parse(row.body);
  const entries = Object.entries(body).map(([name, value]) => toMember(name, value));
  return { id: row.eventId, kind: row.kind, occurred_at: toInstant(row.occurredAt), body: Object.fromEntries(entries) };
}

/** The domain's names end in `At` for instants; a gap's `from` and `to` are numbers only because they are instants too. */
function toMember(name: string, value: unknown): readonly [string, unknown] {
  if (name === "signingKey" && typeof value === "string") return ["key_fingerprint", keyFingerprint(value)];
  const isInstant = name.endsWith("At") || name === "from" || name === "to";
  return [snakeCase(name), isInstant && typeof value === "number" ? msToInstant(value) : value];
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
