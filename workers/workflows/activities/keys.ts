import { findNodeKeys } from "../../../db/node-keys.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { type DeclaredKey, declaredKeys } from "../../../domain/keys/declared.ts";
import { injectPayload } from "../../node-keys/inject-payload.ts";
import { deleteKeys, ensureKeys } from "../../node-keys/keep.ts";
import type { SagaDeps, SagaRef } from "../deps.ts";
import { pending, type StepReport, skipped, succeeded } from "../step-record.ts";
import { enqueue } from "./commands.ts";
import { loadNode, requireProvisioning, viewNode } from "./nodes.ts";

const NO_KEYS = "the chain declares no keys";

/**
 * Source 000, GenerateNodeKeys: DEK and keys are made, encrypted, stored and backed up. Done twice it finds the first.
 * @throws saga_superseded, keys_conflict, keys_missing, key_unreadable
 */
export async function generateNodeKeys(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  requireProvisioning((await viewNode(deps, saga)).state);
  const declared = await keysOf(deps, saga);
  if (declared.length === 0) return skipped(NO_KEYS);
  const { origin } = await ensureKeys(deps, saga.nodeId, declared);
  const how = { generated: "made and backed up", restored: "restored from the backup", kept: "there and backed up" };
  return succeeded(`${countOf(declared.length)} ${how[origin]}`);
}

/**
 * Sends the node's keys to its agent. The DEK is in the clear only while it is sealed to the installation; the command's
 * sealed bytes are wiped from the node's object when it has ended.
 * @throws keys_missing, keys_conflict, no_installation, key_unreadable
 */
export async function sendInjectKeys(deps: SagaDeps, saga: SagaRef, round: number): Promise<StepReport> {
  const declared = await keysOf(deps, saga);
  if (declared.length === 0) return skipped(NO_KEYS);
  const { set } = await deps.database((db) => findNodeKeys(db, saga.nodeId));
  if (set === null) throw new OrreryError("keys_missing", "The node has no keys.");
  const payload = await injectPayload(deps, set, declared, await viewNode(deps, saga));
  const command = await enqueue(deps, saga, payload, DEFAULTS.command.ttlMs, round);
  return pending(`command ${command.commandId}`, command.commandId);
}

/** Deletes the node's keys and their backup, and looks that nothing is left. Also of a node that never had any. */
export async function deleteNodeKeys(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  const count = await deleteKeys(deps, saga.nodeId);
  return succeeded(count === 0 ? "there were no keys" : `${countOf(count)} deleted with the backup`);
}

async function keysOf(deps: SagaDeps, saga: SagaRef): Promise<readonly DeclaredKey[]> {
  const { node } = await loadNode(deps, saga);
  const files = await deps.chainFiles(node.chain, node.chainContentHash);
  return declaredKeys(node.chain, node.nodeType, files);
}

function countOf(keys: number): string {
  return keys === 1 ? "one key" : `${keys} keys`;
}
