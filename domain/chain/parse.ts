import type { z } from "zod";
import { DEFAULTS } from "../defaults.ts";
import { type ChainIssue, chainInvalid, chainIssue, issuesOf } from "./issues.ts";
import { type ChainObservation, observationSchema } from "./observation.ts";
import { type ChainProfile, profileSchema } from "./profile.ts";
import { type Recipe, recipeSchema } from "./recipe.ts";
import { referenceIssues } from "./references.ts";
import { type ChainRuntime, runtimeSchema } from "./runtime.ts";
import { readYaml } from "./yaml.ts";

/** A chain whose files are all valid and agree with each other. */
export interface ChainDefinition {
  readonly chainId: string;
  readonly profile: ChainProfile;
  readonly runtime: ChainRuntime;
  readonly observation: ChainObservation | null;
  /** By node type. */
  readonly recipes: Readonly<Record<string, Recipe>>;
}

/** The chain as one node needs it. */
export interface NodeChain extends Omit<ChainDefinition, "recipes"> {
  readonly nodeType: string;
  readonly recipe: Recipe;
}

const RECIPE_FILE = /^recipes\/([a-z0-9][a-z0-9_-]*)\.yaml$/;
const UPGRADE_FILE = /^upgrades\/[a-z0-9][a-z0-9._-]*\.yaml$/;
const OBSERVATION = "observation.yaml";

/**
 * Reads all files of a chain (`profile.yaml`, `runtime.yaml`, optional `observation.yaml`, `recipes/<nodeType>.yaml` for every node type).
 * @throws chain_invalid with every issue of every file in details.issues
 */
export function parseChainFiles(chainId: string, files: Readonly<Record<string, string>>): ChainDefinition {
  const names = Object.keys(files);
  if (names.length > DEFAULTS.chain.files) {
    throw chainInvalid(chainId, [chainIssue("", [], names.length, `files are more than ${DEFAULTS.chain.files}`)]);
  }
  const reader = new ChainReader(chainId, files);
  const strange = names.filter((file) => !isKnownFile(file));
  reader.issues.push(...strange.map((file) => chainIssue(file, [], undefined, "is not a file that a chain has")));
  const profile = reader.read("profile.yaml", profileSchema);
  const runtime = reader.read("runtime.yaml", runtimeSchema);
  const observation = Object.hasOwn(files, OBSERVATION) ? reader.read(OBSERVATION, observationSchema) : null;
  const recipes = readRecipes(reader, files, profile);
  if (profile !== undefined && runtime !== undefined) {
    for (const [nodeType, recipe] of Object.entries(recipes)) {
      reader.issues.push(...referenceIssues(profile, runtime, recipe, recipeFile(nodeType)));
    }
  }
  if (reader.issues.length > 0 || profile === undefined || runtime === undefined || observation === undefined) {
    throw chainInvalid(chainId, unique(reader.issues));
  }
  return { chainId, profile, runtime, observation, recipes };
}

/**
 * Reads the files that one node needs: as `parseChainFiles`, but other node types' recipes need not be there.
 * @throws chain_invalid, node_type_not_found as an issue of it
 */
export function parseNodeChain(chainId: string, nodeType: string, files: Readonly<Record<string, string>>): NodeChain {
  const reader = new ChainReader(chainId, files);
  const profile = reader.read("profile.yaml", profileSchema);
  const runtime = reader.read("runtime.yaml", runtimeSchema);
  const observation = Object.hasOwn(files, OBSERVATION) ? reader.read(OBSERVATION, observationSchema) : null;
  const recipe = reader.readRecipe(nodeType);
  if (profile !== undefined && !Object.hasOwn(profile.node_types, nodeType)) {
    reader.issues.push(chainIssue("profile.yaml", ["node_types", nodeType], undefined, "is not declared"));
  }
  if (profile !== undefined && runtime !== undefined && recipe !== undefined) {
    reader.issues.push(...referenceIssues(profile, runtime, recipe, recipeFile(nodeType)));
  }
  if (
    reader.issues.length > 0 ||
    profile === undefined ||
    runtime === undefined ||
    observation === undefined ||
    recipe === undefined
  ) {
    throw chainInvalid(chainId, unique(reader.issues));
  }
  return { chainId, nodeType, profile, runtime, observation, recipe };
}

/** The file that holds a node type's recipe. */
export function recipeFile(nodeType: string): string {
  return `recipes/${nodeType}.yaml`;
}

class ChainReader {
  readonly issues: ChainIssue[] = [];
  readonly #chainId: string;
  readonly #files: Readonly<Record<string, string>>;

  constructor(chainId: string, files: Readonly<Record<string, string>>) {
    this.#chainId = chainId;
    this.#files = files;
  }

  /** One file by its schema; undefined when it is wrong, with its issues kept. */
  read<T extends z.ZodType<{ chain_id?: string; chain_profile_id?: string }>>(
    file: string,
    schema: T,
  ): z.output<T> | undefined {
    const text = Object.hasOwn(this.#files, file) ? this.#files[file] : undefined;
    if (text === undefined) return this.#wrong([chainIssue(file, [], undefined, "is missing")]);
    const document = readYaml(file, text);
    if (!document.ok) return this.#wrong(document.issues);
    const result = schema.safeParse(document.value);
    if (!result.success) return this.#wrong(issuesOf(file, document.value, result.error));
    const key = file === "profile.yaml" ? "chain_id" : "chain_profile_id";
    const named = result.data[key];
    if (named !== this.#chainId)
      this.issues.push(chainIssue(file, [key], named, `must be ${this.#chainId}, the chain's id`));
    return result.data;
  }

  /** A recipe that is of the node type that its file is named after. */
  readRecipe(nodeType: string): Recipe | undefined {
    const file = recipeFile(nodeType);
    const recipe = this.read(file, recipeSchema);
    if (recipe === undefined || recipe.node_type === nodeType) return recipe;
    return this.#wrong([
      chainIssue(file, ["node_type"], recipe.node_type, `must be ${nodeType}, as the file is named`),
    ]);
  }

  #wrong(issues: readonly ChainIssue[]): undefined {
    this.issues.push(...issues);
    return undefined;
  }
}

function readRecipes(
  reader: ChainReader,
  files: Readonly<Record<string, string>>,
  profile: ChainProfile | undefined,
): Record<string, Recipe> {
  const named = Object.keys(files).flatMap((file) => RECIPE_FILE.exec(file)?.[1] ?? []);
  const nodeTypes = new Set([...Object.keys(profile?.node_types ?? {}), ...named]);
  const recipes: Record<string, Recipe> = {};
  for (const nodeType of nodeTypes) {
    if (profile !== undefined && !Object.hasOwn(profile.node_types, nodeType)) {
      reader.issues.push(
        chainIssue(recipeFile(nodeType), [], undefined, "is for a node type that profile.yaml does not declare"),
      );
      continue;
    }
    const recipe = reader.readRecipe(nodeType);
    if (recipe !== undefined) recipes[nodeType] = recipe;
  }
  return recipes;
}

function isKnownFile(file: string): boolean {
  return (
    file === "profile.yaml" ||
    file === "runtime.yaml" ||
    file === OBSERVATION ||
    RECIPE_FILE.test(file) ||
    UPGRADE_FILE.test(file)
  );
}

/** Several recipes report the same wrong runtime once. */
function unique(issues: readonly ChainIssue[]): ChainIssue[] {
  return [...new Map(issues.map((issue) => [JSON.stringify(issue), issue])).values()];
}
