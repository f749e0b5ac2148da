import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { Platform } from "../domain/chain/scope.ts";
import { DEFAULTS } from "../domain/defaults.ts";
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
import { reconnectDelayMs } from "./session/backoff.ts";
import type { AgentMessageInit, ControlBody } from "./session/frames.ts";
import { Session, type SessionEnd, sessionUrl } from "./session/session.ts";
import type { AgentSettings } from "./settings.ts";
import { CommandRecord } from "./state/command-record.ts";
import { AgentIdentity } from "./state/identity.ts";
import { lockDirectory } from "./state/lock.ts";
import { AGENT_VERSION } from "./version.ts";

const PROCESS_SETTLE_MS = 1_000;

/** Why the agent ended by itself, or that it was told to. */
export type AgentEnd =
  | { readonly kind: "stopped" }
  | { readonly kind: "refused"; readonly code: string; readonly message: string };

/** The ops-agent: keeps a session with the node's object, executes its commands and tells it how the chain node is. */
export class Agent {
  readonly #settings: AgentSettings;
  readonly #log: Logger;
  readonly #identity: AgentIdentity;
  readonly #node: ChainNode;
  readonly #executor: CommandExecutor;
  readonly #probe: Probe;
  readonly #stopped = new AbortController();
  #session: Session | null = null;

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
    this.#settings = settings;
    this.#log = log;
    const { state_dir: stateDir, timing } = settings;
    this.#identity = new AgentIdentity(stateDir, randomUUID);
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
    });
    this.#executor = new CommandExecutor({
      record,
      interpret: interpretFor(this.#node),
      send: (message) => this.#send(message),
      log,
      now: () => performance.now(),
      stallCheckMs: timing.stall_check_ms,
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
    let failures = 0;
    while (!this.#stopped.signal.aborted) {
      const since = performance.now();
      const end = await this.#hold();
      if (this.#stopped.signal.aborted) break;
      if (end.kind === "goodbye" && end.reconnectAfterMs === null) {
        await this.#executor.stop();
        this.#probe.stop();
        return { kind: "refused", code: end.code, message: end.message };
      }
      const wasGood = end.welcomed && performance.now() - since > DEFAULTS.heartbeat.beatMs;
      failures = wasGood ? 0 : failures + 1;
      await this.#pause(end, failures);
    }
    return { kind: "stopped" };
  }

  /** Ends the session and what runs in the agent; the chain node goes on without it. */
  async stop(): Promise<void> {
    this.#probe.stop();
    await this.#executor.stop();
    this.#stopped.abort();
    this.#session?.close();
  }

  /** One session, or why there could be none: a disk that is full for a while must not end the agent. */
  async #hold(): Promise<SessionEnd> {
    try {
      return await this.#converse();
    } catch (error) {
      this.#log.error({ err: error }, "no session could be started");
      return { kind: "lost", welcomed: false, reason: "no session could be started" };
    }
  }

  /** One session, from the raised epoch to its end. */
  async #converse(): Promise<SessionEnd> {
    const settings = this.#settings;
    const sessionEpoch = BigInt(this.#identity.raiseEpoch());
    const session = new Session({
      url: sessionUrl(settings.control_url, settings.node_id),
      headers: {
        authorization: `Bearer ${readToken(settings.token_file)}`,
        "orrery-generation": String(settings.generation),
      },
      hello: () => this.#hello(sessionEpoch),
      runningIds: () => this.#executor.runningIds(),
      onMessage: (body) => this.#take(body),
      onWelcome: () => this.#log.info({ session_epoch: Number(sessionEpoch) }, "session established"),
      log: this.#log,
    });
    this.#session = session;
    const end = await session.ended;
    this.#session = null;
    this.#log.info({ session_epoch: Number(sessionEpoch), ...end }, "session ended");
    return end;
  }

  async #pause(end: SessionEnd, failures: number): Promise<void> {
    const asked = end.kind === "goodbye" ? (end.reconnectAfterMs ?? 0) : 0;
    const jitter = reconnectDelayMs(failures, this.#settings.timing.reconnect_max_ms, Math.random());
    await delay(asked + jitter, undefined, { signal: this.#stopped.signal }).catch(() => undefined);
  }

  #hello(sessionEpoch: bigint): AgentMessageInit {
    const value = {
      protocolVersion: DEFAULTS.agent.protocolVersion,
      installationId: this.#identity.installationId,
      generation: this.#settings.generation,
      sessionEpoch,
      agentVersion: AGENT_VERSION,
      runningCommandIds: [...this.#executor.runningIds()],
      status: this.#probe.status(),
    };
    return { body: { case: "hello", value } };
  }

  #take(body: ControlBody): void {
    if (body.case === "command") this.#executor.receive(body.value);
    if (body.case === "cancelCommand") this.#executor.cancel(body.value.commandId);
  }

  #sendStatus(): void {
    this.#send({ body: { case: "status", value: this.#probe.status() } });
  }

  #send(message: AgentMessageInit): void {
    this.#session?.send(message);
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
function readToken(file: string): string {
  const invalid = (problem: string, cause?: unknown) =>
    new OrreryError("configuration_invalid", `token_file: ${file} ${problem}.`, {}, { cause });
  let token: string;
  try {
    token = readFileSync(file, "utf8").trim();
  } catch (cause) {
    throw invalid("cannot be read", cause);
  }
  if (!/^[!-~]{1,512}$/.test(token)) throw invalid("must hold the node token alone");
  return token;
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
