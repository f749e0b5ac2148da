import { z } from "zod";
import { isKeyFileMode, KEY_ENCODINGS, KEY_TYPES } from "../keys/key-type.ts";
import { fileModeText, inputName, inputPhase } from "./fields.ts";
import { type ChainIssue, chainIssue } from "./issues.ts";
import { containedPath } from "./paths.ts";
import type { ChainProfile } from "./profile.ts";
import type { Recipe } from "./recipe.ts";

/** Secrets of source `generated`: which key is made, and the file of the node's data directory that it is written to. */

const RANDOM_BYTES = { min: 16, max: 1_024 } as const;

/** Plain, since the file is written where no template is rendered; in its normal form. */
const keyPath = z
  .string()
  .max(512)
  .transform((path, context) => {
    if (path.includes("{{")) return refuse(context, "must not hold a template");
    const result = containedPath(path);
    return result.ok ? result.path : refuse(context, `${result.reason} (path_outside_data_dir)`);
  });

function refuse(context: z.RefinementCtx, message: string) {
  context.addIssue({ code: "custom", message });
  return z.NEVER;
}

const keyFile = z.strictObject({
  path: keyPath,
  /** The account that the file belongs to; the agent's own when left out. */
  owner: z
    .string()
    .regex(/^[a-z_][a-z0-9_-]{0,31}$/, "must be the name of an account")
    .optional(),
  /** Octal text, as in the file: a parsed profile is stored and read by this schema again. */
  mode: fileModeText
    .default("0600")
    .refine((mode) => isKeyFileMode(Number.parseInt(mode, 8)), "must be read and written by account and group alone"),
  encoding: z.enum(KEY_ENCODINGS).default("hex"),
});

export const generatedSecret = z
  .strictObject({
    name: inputName,
    type: z.literal("secret"),
    source: z.literal("generated"),
    key_type: z.enum(KEY_TYPES),
    /** Of a `random` key. */
    bytes: z.int().min(RANDOM_BYTES.min).max(RANDOM_BYTES.max).optional(),
    file: keyFile.optional(),
    required: z.boolean().default(true),
    phase: inputPhase,
  })
  .superRefine(({ key_type, bytes, file }, context) => {
    if (bytes !== undefined && key_type !== "random") {
      context.addIssue({ code: "custom", path: ["bytes"], input: bytes, message: "is for key_type random alone" });
    }
    if (key_type === "jwt-hex" && file !== undefined && file.encoding !== "hex") {
      const message = "must be hex, as key_type jwt-hex says";
      context.addIssue({ code: "custom", path: ["file", "encoding"], input: file.encoding, message });
    }
  })
  // A parsed profile is stored and read by this schema again, so what is filled in here must be what may be written.
  .transform(({ bytes, file, ...input }) => ({
    ...input,
    ...(bytes === undefined ? {} : { bytes }),
    file: file ?? keyFile.parse({ path: `keys/${input.name}` }),
  }));

/** Key files that lie on or under each other's place, or that a recipe's step would overwrite at the next CONFIGURE. */
export function keyFileIssues(profile: ChainProfile, recipe: Recipe, file: string): ChainIssue[] {
  const paths = profile.provisioning_inputs.flatMap((input, index) =>
    "file" in input ? [{ index, path: input.file.path }] : [],
  );
  const clashing = paths.filter(({ index, path }) =>
    paths.some((other) => other.index < index && meet(other.path, path)),
  );
  const overwriting = recipe.steps.flatMap((step, index) => {
    const [field, path] = writtenBy(step);
    return path !== null && paths.some((key) => meet(key.path, path)) ? [{ index, field, path }] : [];
  });
  return [
    ...clashing.map(({ index, path }) =>
      chainIssue("profile.yaml", ["provisioning_inputs", index, "file", "path"], path, "is the place of another key"),
    ),
    ...overwriting.map(({ index, field, path }) =>
      chainIssue(file, ["steps", index, field], path, "is the place of a key of profile.yaml"),
    ),
  ];
}

/** The file that a step writes, in its normal form; null when it writes none whose name is known here. */
function writtenBy(step: Recipe["steps"][number]): readonly [string, string | null] {
  if (step.type === "write_file") return ["path", normal(step.path)];
  if (step.type === "download") return ["to", normal(step.to)];
  return ["", null];
}

function normal(path: string): string | null {
  const result = containedPath(path);
  return result.ok ? result.path : null;
}

/** Whether two paths cannot both be files. */
function meet(one: string, other: string): boolean {
  return one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`);
}
