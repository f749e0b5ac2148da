import { uuidv7 } from "uuidv7";
import { hostsOfNode } from "../../../db/hosts.ts";
import { recipeFile } from "../../../domain/chain/parse.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { type ErrorCode, OrreryError } from "../../../domain/errors.ts";
import type { CommandPayload, CommandState, CommandView } from "../../../domain/node/command.ts";
import { commandEndedEvent } from "../../../domain/saga/ids.ts";
import type { SagaDeps, SagaRef } from "../deps.ts";
import { pending, type StepReport, skipped, succeeded } from "../step-record.ts";
import { loadNode, viewNode } from "./nodes.ts";

/** CONFIGURE carries the chain's files as they were pushed when the node was created. */
export async function sendConfigureCommand(deps: SagaDeps, saga: SagaRef, round: number): Promise<StepReport> {
  const { node } = await loadNode(deps, saga);
  const files = await deps.chainFiles(node.chain, node.chainContentHash);
  const { ARTIFACTS_URL: artifactsUrl } = deps.config;
  const payload: CommandPayload = {
    type: "CONFIGURE",
    chain: node.chain,
    nodeType: node.nodeType,
    contentHash: node.chainContentHash,
    profileYaml: files["profile.yaml"] ?? "",
    runtimeYaml: files["runtime.yaml"] ?? "",
    recipeYaml: files[recipeFile(node.nodeType)] ?? "",
    observationYaml: files["observation.yaml"] ?? "",
    values: artifactsUrl === undefined ? {} : { artifacts_url: artifactsUrl },
  };
  const command = await enqueue(deps, saga, payload, DEFAULTS.provisioning.configureTtlMs, round);
  return succeeded(`command ${command.commandId}`, command.commandId);
}

export async function sendStart(deps: SagaDeps, saga: SagaRef, round: number): Promise<StepReport> {
  const command = await enqueue(deps, saga, { type: "START" }, DEFAULTS.command.ttlMs, round);
  return pending(`command ${command.commandId}`, command.commandId);
}

/** Where no host is left or no agent is connected, nobody can stop anything, and there is nothing to wait for. */
export async function sendStop(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  const { installations, state } = await viewNode(deps, saga);
  if (state === "terminated" || state === "failed") return skipped(`the node has ended as ${state}`);
  const hosts = await deps.database((db) => hostsOfNode(db, saga.nodeId));
  if (hosts.every(({ status }) => status === "destroyed")) return skipped("no host is left");
  if (!installations.some(({ connected }) => connected)) return skipped("no agent is connected");
  // 0: as long as the chain's runtime file allows.
  const command = await enqueue(deps, saga, { type: "STOP", graceMs: 0 }, DEFAULTS.saga.stopWaitMs, 1);
  return pending(`command ${command.commandId}`, command.commandId);
}

/** The idempotency key makes a second try within a round answer the first one's command. */
export function enqueue(
  deps: SagaDeps,
  saga: SagaRef,
  payload: CommandPayload,
  ttlMs: number,
  round: number,
): Promise<CommandView> {
  const commandId = uuidv7();
  return deps.node(saga.nodeId, (node) =>
    node.enqueueCommand({
      commandId,
      payload,
      ttlMs,
      idempotencyKey: `${saga.id}:${payload.type}:${round}`,
      requestedBy: `saga:${saga.id}`,
      notify: { workflow: saga.workflow, instanceId: saga.id, eventType: commandEndedEvent(commandId) },
    }),
  );
}

/** @throws the command's own failure once it has ended in any way but `completed` */
export async function commandResult(deps: SagaDeps, saga: SagaRef, commandId: string): Promise<StepReport> {
  const command = await deps.node(saga.nodeId, (node) => node.command(commandId));
  if (command.endedAt === null) return pending(`command ${commandId} is ${command.state}`, commandId);
  if (command.state === "completed") return succeeded(`command ${commandId} completed`, commandId);
  const code = command.code ?? CODE_OF_END[command.state] ?? "command_failed";
  throw new OrreryError(code, command.message ?? `The command ${command.type} ${command.state}.`);
}

/** Gives up on a command that nobody can tell the end of. */
export async function abandonCommand(deps: SagaDeps, saga: SagaRef, commandId: string): Promise<StepReport> {
  const report = await commandResult(deps, saga, commandId);
  if (report.status !== "pending") return report;
  await deps.node(saga.nodeId, (node) => node.cancelCommand(commandId, `saga:${saga.id}`));
  throw new OrreryError("command_stalled", "The command did not end within the time that the saga waits.");
}

const CODE_OF_END: Partial<Record<CommandState, ErrorCode>> = {
  failed: "command_failed",
  interrupted: "command_interrupted",
  cancelled: "command_cancelled",
  expired: "command_expired",
};
