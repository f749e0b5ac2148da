import { z } from "zod";
import { containedPath } from "./paths.ts";
import { templateNames } from "./template.ts";

/** Fields that several chain files share. Every schema here keeps the type of its input or says what it turns it into. */

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;
const DAY_MS = 24 * UNIT_MS.h;

/** A duration such as `500ms`, `30s`, `10m` or `2h`, as milliseconds; at most a day. */
export const duration = z
  .string()
  .regex(/^\d{1,8}(ms|s|m|h)$/, "must be a duration such as 500ms, 30s, 10m or 2h")
  .transform(durationMs)
  .refine((ms) => ms > 0 && ms <= DAY_MS, "must be more than 0 and at most 24h");

function durationMs(text: string): number {
  const unit = text.endsWith("ms") ? "ms" : text.endsWith("s") ? "s" : text.endsWith("m") ? "m" : "h";
  return Number.parseInt(text, 10) * UNIT_MS[unit];
}

/** Names that people choose: chains, node types, ports, binaries, regions. */
export const slug = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9_-]{0,63}$/,
    "must be 1 to 64 characters of a-z, 0-9, - and _, starting with a letter or digit",
  );

/** One line for people. */
export const label = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[^\p{Cc}\p{Cs}]+$/u, "must not hold control characters");

/** Keys that templates reach through a dot. */
export const templateKey = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, "must start with a letter and have 1 to 64 letters, digits, - and _");

/** What a chain calls the things that it asks for. */
export const inputName = z.string().regex(/^[a-z][a-z0-9_]{0,63}$/, "must be lower-case letters, digits and _");
export const inputPhase = z.enum(["pre_provision", "post_provision"]);

export const schemaVersion = z.literal("1.0", 'must be "1.0"');

/** Text that may hold `{{ .Name }}` templates; their syntax is checked, their names when the whole chain is known. */
export const template = z
  .string()
  .max(32_768)
  .superRefine((text, context) => {
    const result = templateNames(text);
    if (!result.ok) context.addIssue({ code: "custom", message: result.message });
  });

/** A path inside the node's data directory. What holds a template is checked again when it is rendered. */
export const dataPath = template
  .min(1)
  .max(512)
  .superRefine((path, context) => {
    if (path.includes("{{")) return;
    const result = containedPath(path);
    if (!result.ok) context.addIssue({ code: "custom", message: `${result.reason} (path_outside_data_dir)` });
  });

/** File permissions in octal text, quoted in YAML so that it stays text; set-id bits are refused. */
export const fileModeText = z.string().regex(/^0?[0-7]{3}$/, 'must be octal permissions in quotes, such as "0644"');

export const fileMode = fileModeText.transform((text) => Number.parseInt(text, 8));

export const sha256Checksum = z.string().regex(/^sha256:[0-9a-f]{64}$/, "must be sha256: and 64 lower-case hex digits");

export const portNumber = z.int().min(1).max(65_535);

/** A place in a JSON document by RFC 6901; the empty pointer is the whole document. */
export const jsonPointer = z
  .string()
  .max(256)
  .regex(/^(\/([^~]|~[01])*)?$/, "must be a JSON pointer such as /result/height");

export const httpPath = z
  .string()
  .max(512)
  .regex(/^\/[!-~]*$/, "must start with / and hold no spaces");

export const environment = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, "must be the name of an environment variable"),
  template,
);
