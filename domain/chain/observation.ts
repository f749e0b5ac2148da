import { z } from "zod";
import { duration, httpPath, jsonPointer, schemaVersion, slug, templateKey } from "./fields.ts";

/** observation.yaml: what the agent measures beside readiness, and the policies that judge it. */

const metricName = z.string().regex(/^[a-z][a-z0-9_]{0,63}$/, "must be lower-case letters, digits and _");
const every = duration.prefault("60s");

const jsonRpcCollector = z.strictObject({
  kind: z.literal("json_rpc"),
  metric: metricName,
  port: templateKey,
  path: httpPath.default("/"),
  method: z.string().min(1).max(128),
  params: z.array(z.json()).max(16).default([]),
  pointer: jsonPointer.default(""),
  every,
});

const prometheusCollector = z.strictObject({
  kind: z.literal("prometheus"),
  port: templateKey,
  path: httpPath.default("/metrics"),
  /** The exporter's names that are kept, each with the name that policies know it by. */
  metrics: z.record(metricName, z.string().min(1).max(256)),
  every,
});

const systemCollector = z.strictObject({
  kind: z.literal("system"),
  metrics: z.array(z.enum(["cpu_percent", "memory_percent", "disk_percent", "process_restarts"])).min(1),
  every,
});

const policy = z.strictObject({
  name: slug,
  /** CEL over the metrics; it is compiled where policies run. */
  expression: z.string().min(1).max(2_048),
  severity: z.enum(["warning", "critical"]),
  for: duration.optional(),
  message: z.string().min(1).max(512),
});

export const observationSchema = z.strictObject({
  schema_version: schemaVersion,
  chain_profile_id: slug,
  collectors: z
    .array(z.discriminatedUnion("kind", [jsonRpcCollector, prometheusCollector, systemCollector]))
    .max(64)
    .default([]),
  policies: z.array(policy).max(64).default([]),
});

export type ChainObservation = z.output<typeof observationSchema>;
