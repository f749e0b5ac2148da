import { z } from "@hono/zod-openapi";
import type { NodeEventRow } from "../../../db/nodes.ts";
import { instant, msToInstant, toInstant, uuid } from "../fields.ts";

export const nodeEventSchema = z
  .strictObject({
    id: uuid,
    kind: z.string(),
    occurred_at: instant,
    body: z.record(z.string(), z.unknown()).openapi({ description: "What changed; the members depend on `kind`." }),
  })
  .openapi("NodeEvent");

const stored = z.record(z.string(), z.unknown());

export function toNodeEvent(row: NodeEventRow): z.output<typeof nodeEventSchema> {
  const { kind: _kind, ...body } = stored.parse(row.body);
  const entries = Object.entries(body).map(([name, value]) => [snakeCase(name), toJson(name, value)]);
  return { id: row.eventId, kind: row.kind, occurred_at: toInstant(row.occurredAt), body: Object.fromEntries(entries) };
}

/** The domain's names end in `At` for instants; a gap's `from` and `to` are numbers only because they are instants too. */
function toJson(name: string, value: unknown): unknown {
  const isInstant = name.endsWith("At") || name === "from" || name === "to";
  return isInstant && typeof value === "number" ? msToInstant(value) : value;
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
