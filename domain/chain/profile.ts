import { z } from "zod";
import { KEY_TYPES } from "../keys/key-type.ts";
import { inputName, inputPhase, label, schemaVersion, sha256Checksum, slug, template, templateKey } from "./fields.ts";
import { generatedSecret } from "./key-file.ts";

/** profile.yaml: what the chain is, which machines it needs, and where its programs come from. */

const resources = z.strictObject({
  cpu: z.number().positive().max(1_024),
  memory_gb: z.number().positive().max(65_536),
  disk_gb: z.number().positive().max(1_048_576),
  disk_type: z.enum(["ssd", "nvme", "hdd"]),
});

const providerChoice = z
  .strictObject({
    instance_type: z.string().min(1).max(64),
    default_region: slug,
    regions: z.array(slug).min(1).max(64),
  })
  .superRefine((choice, context) => {
    if (choice.regions.includes(choice.default_region)) return;
    context.addIssue({
      code: "custom",
      path: ["default_region"],
      input: choice.default_region,
      message: "must be one of regions",
    });
  });

const nodeType = z
  .strictObject({
    resources,
    default_providers: z.array(slug).min(1).max(16),
    providers: z.record(slug, providerChoice),
    sync_data: z.record(templateKey, template).default({}),
  })
  .superRefine((type, context) => {
    for (const [index, name] of type.default_providers.entries()) {
      if (Object.hasOwn(type.providers, name)) continue;
      context.addIssue({
        code: "custom",
        path: ["default_providers", index],
        input: name,
        message: "must be declared in providers",
      });
    }
  });

const binary = z.strictObject({
  version: z.string().regex(/^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$/, "must be a version such as 1.7.1"),
  /** May use .Version, .Platform and every name that recipes may use but .Binaries. */
  url_template: template,
  checksums: z.partialRecord(z.enum(["linux-x64", "linux-arm64"]), sha256Checksum),
});

const textInput = z.strictObject({
  name: inputName,
  type: z.enum(["text", "proof"]),
  required: z.boolean().default(false),
  validation: z.string().max(256).refine(isRegularExpression, "must be a regular expression").optional(),
  phase: inputPhase,
});

const givenSecret = z.strictObject({
  name: inputName,
  type: z.literal("secret"),
  source: z.enum(["chain_generated", "user_provided"]),
  key_type: z.string().min(1).max(64).optional(),
  required: z.boolean().default(true),
  phase: inputPhase,
});

const secretInput = z.discriminatedUnion("source", [generatedSecret, givenSecret]);
const provisioningInput = z.discriminatedUnion("type", [textInput, secretInput]);

const provisioningInputs = z
  .array(provisioningInput)
  .max(64)
  .superRefine((inputs, context) => {
    const seen = new Set<string>();
    for (const [index, { name }] of inputs.entries()) {
      if (seen.has(name)) {
        context.addIssue({ code: "custom", path: [index, "name"], input: name, message: "must be unique" });
      }
      seen.add(name);
    }
  });

/** Older chain files declare generated keys as `keys` (source 000, "Backward compatibility"). */
const legacyKeys = z
  .array(z.strictObject({ name: inputName, key_type: z.enum(KEY_TYPES) }))
  .transform(
    (keys): z.input<typeof provisioningInputs> =>
      keys.map((key) => ({ ...key, type: "secret", source: "generated", phase: "pre_provision" })),
  )
  .pipe(provisioningInputs);

export const profileSchema = z
  .strictObject({
    schema_version: schemaVersion,
    chain_id: slug,
    display_name: label,
    network_type: z.enum(["mainnet", "testnet", "devnet"]),
    chain_type: slug.optional(),
    node_types: z.record(slug, nodeType).refine((types) => Object.keys(types).length > 0, "must declare a node type"),
    binaries: z.record(templateKey, binary).default({}),
    provisioning_inputs: provisioningInputs.optional(),
    keys: legacyKeys.optional(),
    /** At most one host may hold the node's keys at a time (validators). */
    exclusive_keys: z.boolean().default(false),
    values: z.record(templateKey, z.union([z.string().max(4_096), z.number(), z.boolean()])).default({}),
  })
  .superRefine((profile, context) => {
    if (profile.provisioning_inputs === undefined || profile.keys === undefined) return;
    context.addIssue({
      code: "custom",
      path: ["keys"],
      input: profile.keys,
      message: "must not stand beside provisioning_inputs",
    });
  })
  .transform(({ keys, provisioning_inputs, ...profile }) => ({
    ...profile,
    provisioning_inputs: provisioning_inputs ?? keys ?? [],
  }));

export type ChainProfile = z.output<typeof profileSchema>;
export type ProvisioningInput = z.output<typeof provisioningInput>;

function isRegularExpression(text: string): boolean {
  try {
    new RegExp(text);
    return true;
  } catch {
    return false;
  }
}
