import { create } from "@bufbuild/protobuf";
import { DEFAULTS } from "../../domain/defaults.ts";
import { CommandExecutor } from "../../ops-agent/commands/executor.ts";
import type { Interpret } from "../../ops-agent/commands/handlers.ts";
import { createLog } from "../../ops-agent/log.ts";
import { SessionKeeper } from "../../ops-agent/session/keeper.ts";
import { CommandRecord } from "../../ops-agent/state/command-record.ts";
import type { Way } from "../../ops-agent/transport/way.ts";
import { AGENT_VERSION } from "../../ops-agent/version.ts";
import { StatusSchema, SyncStatus } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { ExpectedAgent, Installation } from "./installation.ts";
import { type LineRecord, newRecord, recorded } from "./record.ts";

const SYNCED = create(StatusSchema, { syncStatus: SyncStatus.SYNCED });

/**
 * An agent without a chain node: identity, sessions, beats, return and command record are the ops-agent's own code. A
 * command runs until it is released.
 */
export class FleetAgent {
  readonly nodeId: string;
  readonly record: LineRecord = newRecord();
  /** How often each command was executed, by id. */
  readonly executions = new Map<string, number>();
  readonly #keeper: SessionKeeper;
  readonly #executor: CommandExecutor;
  readonly #held = new Map<string, () => void>();

  constructor(node: ExpectedAgent, { identity, trust, stateDir }: Installation, ways: readonly [Way, ...Way[]]) {
    this.nodeId = node.nodeId;
    const log = createLog("silent", {});
    this.#executor = new CommandExecutor({
      record: new CommandRecord(stateDir),
      interpret: (command) => this.#interpret(command),
      send: (body) => this.#keeper.send(body),
      log,
      now: () => performance.now(),
      stallCheckMs: DEFAULTS.command.agentStallCheckMs,
    });
    const [first, ...others] = ways;
    this.#keeper = new SessionKeeper({
      nodeId: node.nodeId,
      generation: node.generation,
      identity,
      trust,
      ways: [recorded(first, this.record), ...others.map((way) => recorded(way, this.record))],
      nodeToken: () => node.nodeToken,
      opening: () => ({ agentVersion: AGENT_VERSION, runningCommandIds: [...this.runningIds()], status: SYNCED }),
      runningIds: () => this.runningIds(),
      onCommand: (command) => this.#executor.receive(command),
      onCancel: ({ commandId }) => this.#executor.cancel(commandId),
      reconnectMaxMs: DEFAULTS.agent.reconnectMaxMs,
      returnMs: DEFAULTS.agent.returnMs,
      log,
    });
  }

  /** Holds sessions until the agent is stopped. @throws when it is refused for good */
  async run(): Promise<void> {
    const refusal = await this.#keeper.run();
    if (refusal !== null) throw new Error(`The agent of node ${this.nodeId} was refused: ${refusal.message}`);
  }

  runningIds(): readonly string[] {
    return this.#executor.runningIds();
  }

  /** Lets every command that runs complete. */
  release(): void {
    for (const complete of this.#held.values()) complete();
  }

  async stop(): Promise<void> {
    await this.#executor.stop();
    await this.#keeper.stop();
  }

  #interpret({ id }: Parameters<Interpret>[0]): ReturnType<Interpret> {
    return async ({ signal, onProgress }) => {
      this.executions.set(id, (this.executions.get(id) ?? 0) + 1);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      this.#held.set(id, resolve);
      onProgress({ step: "wait to be released", stepIndex: 0, stepCount: 1, done: 0, total: 0 });
      await promise.finally(() => this.#held.delete(id));
      return {};
    };
  }
}
