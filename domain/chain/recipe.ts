import { z } from "zod";
import {
  dataPath,
  duration,
  environment,
  fileMode,
  httpPath,
  label,
  schemaVersion,
  slug,
  template,
  templateKey,
} from "./fields.ts";

/** recipes/<nodeType>.yaml: the steps of CONFIGURE. All paths are inside the node's data directory. */

const common = {
  name: label,
  /** The step runs when this is absent or renders to a non-empty text. */
  when: template.optional(),
};

const writeFile = z.strictObject({
  ...common,
  type: z.literal("write_file"),
  path: dataPath,
  content: template,
  mode: fileMode.prefault("0644"),
  timeout: duration.prefault("30s"),
});

const download = z.strictObject({
  ...common,
  type: z.literal("download"),
  url: template.min(1),
  /** `sha256:` and hex, after rendering. */
  checksum: template.min(1),
  to: dataPath,
  mode: fileMode.prefault("0644"),
  timeout: duration.prefault("1h"),
});

const extract = z.strictObject({
  ...common,
  type: z.literal("extract"),
  from: dataPath,
  to: dataPath,
  format: z.enum(["tar", "tar.gz"]),
  /** How many leading parts of each entry's path are dropped. */
  strip: z.int().min(0).max(16).default(0),
  timeout: duration.prefault("1h"),
});

const run = z.strictObject({
  ...common,
  type: z.literal("run"),
  /** The program (inside the data directory) and its arguments; never a shell's line. */
  argv: z.tuple([dataPath], template).refine((argv) => argv.length <= 256, "must have at most 256 parts"),
  cwd: dataPath.optional(),
  env: environment.default({}),
  timeout: duration.prefault("10m"),
});

const waitForPort = z.strictObject({
  ...common,
  type: z.literal("wait_for_port"),
  port: templateKey,
  timeout: duration.prefault("1m"),
});

const waitForHttp = z.strictObject({
  ...common,
  type: z.literal("wait_for_http"),
  port: templateKey,
  path: httpPath,
  status: z.int().min(100).max(599).default(200),
  timeout: duration.prefault("1m"),
});

const recipeStep = z.discriminatedUnion("type", [writeFile, download, extract, run, waitForPort, waitForHttp]);

export const recipeSchema = z.strictObject({
  schema_version: schemaVersion,
  chain_profile_id: slug,
  node_type: slug,
  steps: z
    .array(recipeStep)
    .min(1)
    .max(100)
    .superRefine((steps, context) => {
      const seen = new Set<string>();
      for (const [index, { name }] of steps.entries()) {
        if (seen.has(name)) {
          context.addIssue({
            code: "custom",
            path: [index, "name"],
            input: name,
            message: "must be unique within the recipe",
          });
        }
        seen.add(name);
      }
    }),
});

export type Recipe = z.output<typeof recipeSchema>;
export type RecipeStep = z.output<typeof recipeStep>;
