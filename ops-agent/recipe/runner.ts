import type { WriteStream } from "node:fs";
import type { Recipe, RecipeStep } from "../../domain/chain/recipe.ts";
import { renderCondition, renderTemplate, type TemplateScope } from "../../domain/chain/template.ts";
import { OrreryError } from "../../domain/errors.ts";
import { programEnvironment } from "../runtime/environment.ts";
import { RECIPE_MARK } from "../runtime/proc.ts";
import type { DataDir } from "./data-dir.ts";
import { download } from "./download.ts";
import { extract } from "./extract.ts";
import { stepError, stepTimeout } from "./failures.ts";
import { replaceFile } from "./files.ts";
import { runProgram } from "./run.ts";
import { waitForHttp, waitForPort } from "./wait.ts";

export interface StepProgress {
  readonly step: string;
  readonly stepIndex: number;
  readonly stepCount: number;
  readonly done: number;
  readonly total: number;
}

export interface RecipeContext {
  readonly dataDir: DataDir;
  readonly scope: TemplateScope;
  readonly ports: Readonly<Record<string, number>>;
  /** Takes what programs print. */
  readonly output: WriteStream;
  /** Fires when the command is cancelled or the agent stops. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: StepProgress) => void;
  readonly retryMs: number;
}

/**
 * Runs a recipe's steps in order. Each leaves the same result however often it runs, so a recipe can be run again from the start.
 * @returns the names of the steps that ran and of those that their `when` left out
 * @throws the code of the step that failed, with its name in the message
 */
export async function runRecipe(
  recipe: Recipe,
  context: RecipeContext,
): Promise<{ readonly ran: readonly string[]; readonly skipped: readonly string[] }> {
  const ran: string[] = [];
  const skipped: string[] = [];
  for (const [stepIndex, step] of recipe.steps.entries()) {
    context.signal.throwIfAborted();
    const base = { step: step.name, stepIndex, stepCount: recipe.steps.length };
    if (!isWanted(step, context.scope)) {
      skipped.push(step.name);
      continue;
    }
    context.onProgress({ ...base, done: 0, total: 0 });
    await runStep(step, context, (done, total) => context.onProgress({ ...base, done, total }));
    ran.push(step.name);
  }
  return { ran, skipped };
}

type Progress = (done: number, total: number) => void;

function isWanted(step: RecipeStep, scope: TemplateScope): boolean {
  try {
    return step.when === undefined || renderCondition(step.when, scope);
  } catch (error) {
    throw stepError(step.name, error);
  }
}

async function runStep(step: RecipeStep, context: RecipeContext, onProgress: Progress): Promise<void> {
  const timeout = AbortSignal.timeout(step.timeout);
  const signal = AbortSignal.any([context.signal, timeout]);
  try {
    await perform(step, { ...context, signal }, onProgress);
  } catch (error) {
    context.signal.throwIfAborted();
    throw timeout.aborted ? stepTimeout(step.name, step.timeout) : stepError(step.name, error);
  }
}

function perform(step: RecipeStep, context: RecipeContext, onProgress: Progress): Promise<void> {
  const { dataDir, signal, scope, retryMs } = context;
  const render = (text: string) => renderTemplate(text, scope);
  switch (step.type) {
    case "write_file":
      return replaceFile(dataDir, render(step.path), step.mode, (file) => file.writeFile(render(step.content)));
    case "download":
      return download(
        { url: render(step.url), checksum: render(step.checksum), to: render(step.to), mode: step.mode },
        { dataDir, signal, onProgress, retryMs },
      );
    case "extract":
      return extract({ ...step, from: render(step.from), to: render(step.to) }, { dataDir, signal, onProgress });
    case "run":
      return run(step, context, render);
    case "wait_for_port":
      return waitForPort(portOf(step.port, context), signal);
    case "wait_for_http":
      return waitForHttp(`http://127.0.0.1:${portOf(step.port, context)}${step.path}`, step.status, signal);
  }
}

async function run(
  step: Extract<RecipeStep, { type: "run" }>,
  { dataDir, output, signal }: RecipeContext,
  render: (text: string) => string,
): Promise<void> {
  const [program, ...args] = step.argv;
  const path = await dataDir.existing(render(program));
  const cwd = step.cwd === undefined ? dataDir.path : await dataDir.existing(render(step.cwd));
  const own = Object.fromEntries(Object.entries(step.env).map(([name, value]) => [name, render(value)]));
  const env = { ...programEnvironment(dataDir.path, own), [RECIPE_MARK]: dataDir.path };
  await runProgram({ path, args: args.map(render), cwd, env }, output, signal);
}

function portOf(name: string, { ports }: RecipeContext): number {
  const port = Object.hasOwn(ports, name) ? ports[name] : undefined;
  if (port === undefined) throw new OrreryError("recipe_invalid", `There is no port named ${name}.`);
  return port;
}
