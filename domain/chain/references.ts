import { OrreryError } from "../errors.ts";
import { type ChainIssue, chainIssue } from "./issues.ts";
import { keyFileIssues } from "./key-file.ts";
import type { ChainProfile } from "./profile.ts";
import type { Recipe, RecipeStep } from "./recipe.ts";
import type { ChainRuntime } from "./runtime.ts";
import { type Platform, PROVIDED_VALUES, templateScope } from "./scope.ts";
import { isOptional, lookUp, type TemplateScope, templateNames } from "./template.ts";

const PLATFORMS: readonly Platform[] = ["linux-x64", "linux-arm64"];

/**
 * Every template of the runtime and of a recipe that names something no host could resolve, every undeclared port, and
 * every file that is two things at once.
 */
export function referenceIssues(
  profile: ChainProfile,
  runtime: ChainRuntime,
  recipe: Recipe,
  file: string,
): ChainIssue[] {
  const scope = sampleScope(profile, runtime, recipe.node_type);
  if ("issue" in scope) return [scope.issue];
  return [
    ...keyFileIssues(profile, recipe, file),
    ...unresolved("runtime.yaml", ["process"], runtime.process, scope.names),
    ...recipe.steps.flatMap((step, index) => stepIssues(step, ["steps", index], file, runtime, scope.names)),
  ];
}

function stepIssues(
  step: RecipeStep,
  path: readonly PropertyKey[],
  file: string,
  runtime: ChainRuntime,
  scope: TemplateScope,
): ChainIssue[] {
  const { when, ...rest } = step;
  const issues = unresolved(file, path, rest, scope);
  if (when !== undefined) issues.push(...unresolved(file, [...path, "when"], when, scope, isOptional));
  if ("port" in step && !Object.hasOwn(runtime.ports, step.port)) {
    issues.push(chainIssue(file, [...path, "port"], step.port, "must be declared in the ports of runtime.yaml"));
  }
  return issues;
}

/** Walks texts inside lists and records. */
function unresolved(
  file: string,
  path: readonly PropertyKey[],
  value: unknown,
  scope: TemplateScope,
  allowed: (name: string) => boolean = () => false,
): ChainIssue[] {
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).flatMap(([key, inner]) => unresolved(file, [...path, key], inner, scope, allowed));
  }
  if (typeof value !== "string") return [];
  const parsed = templateNames(value);
  if (!parsed.ok) return [];
  return parsed.names
    .filter((name) => !allowed(name) && lookUp(name, scope) === undefined)
    .map((name) => chainIssue(file, path, value, `names ${name}, which nothing defines (template_unresolved)`));
}

/** A scope as some host would have it, or what is wrong with the profile's own templates. */
function sampleScope(
  profile: ChainProfile,
  runtime: ChainRuntime,
  nodeType: string,
): { readonly names: TemplateScope } | { readonly issue: ChainIssue } {
  for (const [name, { checksums }] of Object.entries(profile.binaries)) {
    if (Object.keys(checksums).length > 0) continue;
    return {
      issue: chainIssue("profile.yaml", ["binaries", name, "checksums"], checksums, "must have one for a platform"),
    };
  }
  const provided = Object.fromEntries(PROVIDED_VALUES.map((name) => [name, "provided"]));
  const binaries = Object.fromEntries(
    Object.entries(profile.binaries).map(([name, binary]) => [
      name,
      { ...binary, checksums: forAllPlatforms(binary.checksums) },
    ]),
  );
  const host = { platform: "linux-x64", dataDir: "/data", ports: {} } as const;
  try {
    return { names: templateScope({ ...profile, binaries }, runtime, nodeType, provided, host) };
  } catch (error) {
    if (!(error instanceof OrreryError)) throw error;
    return { issue: chainIssue("profile.yaml", [], undefined, `${error.message} (template_unresolved)`) };
  }
}

/** Which platform a host has does not matter for names, so any declared checksum stands for all. */
function forAllPlatforms(checksums: ChainProfile["binaries"][string]["checksums"]) {
  const some = Object.values(checksums)[0] ?? "";
  return Object.fromEntries(PLATFORMS.map((platform) => [platform, some]));
}
