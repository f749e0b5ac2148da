import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import type { NodeChain } from "../../domain/chain/parse.ts";
import { type Platform, templateScope } from "../../domain/chain/scope.ts";
import { renderTemplate, type TemplateScope } from "../../domain/chain/template.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { ConfigurePayload, InjectKeysPayload } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { CommandContext } from "../commands/handlers.ts";
import { injectKeys } from "../keys/inject-keys.ts";
import type { Probe } from "../probe/probe.ts";
import type { DataDir } from "../recipe/data-dir.ts";
import { runRecipe } from "../recipe/runner.ts";
import type { ProcessSpec, RuntimeAdapter } from "../runtime/adapter.ts";
import { killMarked, RECIPE_MARK } from "../runtime/proc.ts";
import { chainOf, fromPayload, type Installed, loadInstalled, saveInstalled } from "./installed.ts";

export interface ChainNodeOptions {
  readonly nodeId: string;
  readonly stateDir: string;
  readonly dataDir: DataDir;
  readonly platform: Platform;
  readonly ports: Readonly<Record<string, number>>;
  readonly advertiseHost: string;
  readonly runtime: RuntimeAdapter;
  readonly probe: Probe;
  readonly installationId: string;
  /** X25519, 32 bytes: opens what was sealed to this installation. Not to be written to. */
  readonly sealingSecretKey: () => Uint8Array;
}

const DOWNLOAD_RETRY_MS = 1_000;

/** The chain node of this host: installs it by its recipe, runs it by its runtime file, and has it probed. */
export class ChainNode {
  readonly #options: ChainNodeOptions;

  constructor(options: ChainNodeOptions) {
    this.#options = options;
  }

  /**
   * Takes up what an earlier agent installed. A node that runs goes on running and is watched again, one that a reboot
   * ended is started; a recipe's program that was left behind belongs to a command that counts as interrupted, and is ended.
   * @throws process_start_failed, configuration_invalid
   */
  async resume(signal: AbortSignal): Promise<void> {
    killMarked(RECIPE_MARK, this.#options.dataDir.path);
    const installed = loadInstalled(this.#options.stateDir);
    if (installed === null) return;
    this.#watch(chainOf(installed));
    await this.#options.runtime.resume(await this.#installedSpec(), signal);
  }

  /** CONFIGURE: everything is checked before anything is touched, and kept for START only when the whole recipe went well. */
  async configure(payload: ConfigurePayload, context: CommandContext): Promise<Record<string, string>> {
    const installed = fromPayload(payload);
    const chain = chainOf(installed);
    const scope = this.#scope(chain, installed);
    const { dataDir, stateDir, runtime } = this.#options;
    const output = createWriteStream(join(stateDir, "recipe.log"), { mode: 0o600 });
    try {
      const ports = this.#ports(chain);
      const result = await runRecipe(chain.recipe, {
        ...context,
        dataDir,
        scope,
        ports,
        output,
        retryMs: DOWNLOAD_RETRY_MS,
      });
      await runtime.install(await this.#spec(chain, scope));
      saveInstalled(stateDir, installed);
      this.#watch(chain);
      return {
        content_hash: installed.contentHash,
        steps_run: String(result.ran.length),
        steps_skipped: String(result.skipped.length),
      };
    } finally {
      output.end();
      await finished(output).catch(() => undefined);
    }
  }

  /** INJECT_KEYS: the node's keys as files of its data directory. */
  injectKeys(payload: InjectKeysPayload, { signal }: CommandContext): Promise<Record<string, string>> {
    return injectKeys(payload, this.#options, signal);
  }

  async start({ signal }: CommandContext): Promise<Record<string, string>> {
    await this.#options.runtime.start(await this.#installedSpec(), signal);
    return {};
  }

  /** @param graceMs 0 means the runtime file's own */
  async stop(graceMs: number): Promise<Record<string, string>> {
    // Before the first CONFIGURE there is nothing that could run.
    if (loadInstalled(this.#options.stateDir) === null) return {};
    const spec = await this.#installedSpec();
    await this.#options.runtime.stop(spec, graceMs > 0 ? graceMs : spec.stopGraceMs);
    return {};
  }

  async restart({ signal }: CommandContext): Promise<Record<string, string>> {
    const spec = await this.#installedSpec();
    await this.#options.runtime.stop(spec, spec.stopGraceMs);
    signal.throwIfAborted();
    await this.#options.runtime.start(spec, signal);
    return {};
  }

  async #installedSpec(): Promise<ProcessSpec> {
    const installed = loadInstalled(this.#options.stateDir);
    if (installed === null)
      throw new OrreryError("command_failed", "The node is not configured yet; send CONFIGURE first.");
    const chain = chainOf(installed);
    return this.#spec(chain, this.#scope(chain, installed));
  }

  async #spec(chain: NodeChain, scope: TemplateScope): Promise<ProcessSpec> {
    const { command, args, env, stop_signal, stop_grace } = chain.runtime.process;
    const { dataDir, nodeId } = this.#options;
    return {
      nodeId,
      program: await dataDir.existing(renderTemplate(command, scope)),
      args: args.map((arg) => argument(arg, scope)),
      env: Object.fromEntries(Object.entries(env).map(([name, value]) => [name, argument(value, scope)])),
      dataDir: dataDir.path,
      stopSignal: stop_signal,
      stopGraceMs: stop_grace,
    };
  }

  #scope(chain: NodeChain, installed: Installed): TemplateScope {
    const { platform, dataDir, ports } = this.#options;
    const host = { platform, dataDir: dataDir.path, ports };
    return templateScope(chain.profile, chain.runtime, chain.nodeType, installed.values, host);
  }

  #ports(chain: NodeChain): Readonly<Record<string, number>> {
    return { ...chain.runtime.ports, ...this.#options.ports };
  }

  #watch(chain: NodeChain): void {
    const ports = this.#ports(chain);
    const check = chain.runtime.node_status;
    const port = ports[check.port];
    if (port === undefined) return;
    const endpoints = Object.entries(chain.runtime.endpoints).flatMap(([name, scheme]) => {
      const number = ports[name];
      return number === undefined ? [] : [[name, `${scheme}://${this.#options.advertiseHost}:${number}`] as const];
    });
    this.#options.probe.watch({ check, port, endpoints: Object.fromEntries(endpoints) });
  }
}

/** A rendered text that a program can be given: the system ends such texts at a zero byte. */
function argument(text: string, scope: TemplateScope): string {
  const rendered = renderTemplate(text, scope);
  if (!rendered.includes("\0")) return rendered;
  throw new OrreryError("recipe_invalid", `The argument ${JSON.stringify(text)} holds a zero byte.`);
}
