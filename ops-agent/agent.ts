import { randomBytes, randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import type { Platform } from "../domain/chain/scope.ts";
import { OrreryError } from "../domain/errors.ts";
import { CommandExecutor } from "./commands/executor.ts";
import type { Logger } from "./log.ts";
import { interpretFor } from "./node/interpret.ts";
import { ChainNode } from "./node/node.ts";
import { Probe } from "./probe/probe.ts";
import { DataDir } from "./recipe/data-dir.ts";
import type { RuntimeAdapter } from "./runtime/adapter.ts";
import { ProcessAdapter } from "./runtime/process.ts";
import { SystemdAdapter, systemctl } from "./runtime/systemd.ts";
import { SessionKeeper } from "./session/keeper.ts";
import type { OpeningInit } from "./session/messages.ts";
import type { AgentSettings } from "./settings.ts";
import { CommandRecord } from "./state/command-record.ts";
import { AgentIdentity } from "./state/identity.ts";
import { lockDirectory } from "./state/lock.ts";
import { readToken } from "./state/token.ts";
import { Trust } from "./state/trust.ts";
import { waysFor } from "./transport/ways.ts";
import { AGENT_VERSION } from "./version.ts";

const PROCESS_SETTLE_MS = 1_000;

/** Why the agent ended by itself, or that it was told to. */
export type AgentEnd =
  | { readonly kind: "stopped" }
  | { readonly kind: "refused"; readonly code: string; readonly message: string };

/** The ops-agent: keeps a session with the node's object, executes its commands and tells it how the chain node is. */
export class Agent {
  readonly #log: Logger;
  readonly #node: ChainNode;
  readonly #executor: CommandExecutor;
  readonly #probe: Probe;
  readonly #keeper: SessionKeeper;
  readonly #stopped = new AbortController();

  /**
   * Takes the directories, reads what earlier agents left, and watches the chain node again.
   * @throws agent_conflict when another agent runs here, configuration_invalid
   */
  static async open(settings: AgentSettings, log: Logger): Promise<Agent> {
    mkdirSync(settings.state_dir, { recursive: true, mode: 0o700 });
    await lockDirectory(settings.state_dir);
    const dataDir = await DataDir.open(settings.data_dir);
    await lockDirectory(dataDir.path);
    readToken(settings.token_file);
    const agent = new Agent(settings, log, dataDir);
    await agent.#resume();
    return agent;
  }

  constructor(settings: AgentSettings, log: Logger, dataDir: DataDir) {
    this.#log = log;
    const { state_dir: stateDir, timing } = settings;
    const { generation } = settings;
    const make = { generation, newId: randomUUID, newKey: () => randomBytes(32) };
    const identity = new AgentIdentity(stateDir, make, log);
    const record = new CommandRecord(stateDir);
    this.#probe = new Probe({ everyMs: timing.probe_ms, onChange: () => this.#sendStatus(), log });
    this.#node = new ChainNode({
      nodeId: settings.node_id,
      stateDir,
      dataDir,
      platform: hostPlatform(),
      ports: settings.ports,
      advertiseHost: settings.advertise_host,
      runtime: runtimeFor(settings, log),
      probe: this.#probe,
      installationId: identity.installationId,
      sealingSecretKey: () => identity.sealingSecretKey(),
    });
    this.#executor = new CommandExecutor({
      record,
      interpret: interpretFor(this.#node),
      send: (body) => this.#keeper.send(body),
      log,
      now: () => performance.now(),
      stallCheckMs: timing.stall_check_ms,
    });
    this.#keeper = new SessionKeeper({
      nodeId: settings.node_id,
      generation,
      identity,
      trust: new Trust(stateDir, settings.control_keys, log),
      ways: waysFor(settings, log),
      nodeToken: () => readToken(settings.token_file),
      opening: () => this.#opening(),
      runningIds: () => this.#executor.runningIds(),
      onCommand: (command) => this.#executor.receive(command),
      onCancel: ({ commandId }) => this.#executor.cancel(commandId),
      reconnectMaxMs: timing.reconnect_max_ms,
      returnMs: timing.return_ms,
      log,
    });
  }

  async #resume(): Promise<void> {
    try {
      await this.#node.resume(this.#stopped.signal);
    } catch (error) {
      // The agent must be reachable all the same: a new CONFIGURE or START mends it.
      this.#log.error({ err: error }, "the installed node cannot be taken up");
    }
  }

  /** Holds sessions, one after the other, until it is stopped or refused for good. */
  async run(): Promise<AgentEnd> {
    await this.#probe.firstLook();
    const refusal = await this.#keeper.run();
    if (refusal === null) return { kind: "stopped" };
    await this.#executor.stop();
    this.#probe.stop();
    return { kind: "refused", code: refusal.code, message: refusal.message };
  }

  /** Ends the session and what runs in the agent; the chain node goes on without it. */
  async stop(): Promise<void> {
    this.#probe.stop();
    await this.#executor.stop();
    this.#stopped.abort();
    await this.#keeper.stop();
  }

  #opening(): OpeningInit {
    return {
      agentVersion: AGENT_VERSION,
      runningCommandIds: [...this.#executor.runningIds()],
      status: this.#probe.status(),
    };
  }

  #sendStatus(): void {
    this.#keeper.send({ body: { case: "status", value: this.#probe.status() } });
  }
}

function runtimeFor(settings: AgentSettings, log: Logger): RuntimeAdapter {
  if (settings.runtime === "process") {
    return new ProcessAdapter({ stateDir: settings.state_dir, log, settleMs: PROCESS_SETTLE_MS });
  }
  const { unit_dir: unitDir, user } = settings.systemd;
  return new SystemdAdapter({ unitDir, user: user ?? null, systemctl, log });
}

/** @throws configuration_invalid */
function hostPlatform(): Platform {
  if (process.platform === "linux" && process.arch === "x64") return "linux-x64";
  if (process.platform === "linux" && process.arch === "arm64") return "linux-arm64";
  throw new OrreryError(
    "configuration_invalid",
    `The agent runs on linux-x64 and linux-arm64, not ${process.platform}-${process.arch}.`,
  );
}
