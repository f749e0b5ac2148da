import { z } from "zod";

/** A column that holds JSON of a known shape. */
export function jsonColumn<T extends z.ZodType>(schema: T) {
  return z
    .string()
    .transform((text): unknown => JSON.parse(text))
    .pipe(schema);
}

export const sagaWaitSchema = z.object({
  workflow: z.enum(["provision-node", "terminate-node", "reenroll-node"]),
  instanceId: z.string(),
  eventType: z.string(),
});
