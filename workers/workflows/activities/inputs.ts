import { parseNodeChain } from "../../../domain/chain/parse.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { requireSupportedInputs } from "../../../domain/saga/inputs.ts";
import type { SagaDeps, SagaRef } from "../deps.ts";
import { type StepReport, skipped, succeeded } from "../step-record.ts";
import { birthOf, loadNode, requireProvisioning } from "./nodes.ts";

/**
 * Everything that can be known to be wrong before a host is paid for.
 * @throws chain_invalid, provider_unavailable, inputs_unsupported
 */
export async function validateProvisionInputs(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  const subject = await loadNode(deps, saga);
  const { node } = subject;
  // Answers the node as it is when the API has initialised it already.
  const { state } = await deps.node(node.id, (object) => object.initialise(birthOf(subject)));
  requireProvisioning(state);
  const files = await deps.chainFiles(node.chain, node.chainContentHash);
  const { profile } = parseNodeChain(node.chain, node.nodeType, files);
  requireSupportedInputs(profile);
  const providers = profile.node_types[node.nodeType]?.providers ?? {};
  if (!Object.hasOwn(providers, node.provider)) {
    throw new OrreryError("provider_unavailable", `${node.chain} cannot run at ${node.provider}.`);
  }
  deps.provider(node.provider);
  return succeeded("the chain asks for nothing that is not there");
}

/*
 * ValidateProvisionInputs lets only chains through whose keys the platform makes, so what the following steps say is true.
 */

export async function prepareUserProvidedKeys(): Promise<StepReport> {
  return skipped("the chain declares no keys that its user provides");
}

export async function captureChainGeneratedKeys(): Promise<StepReport> {
  return skipped("the chain declares no keys that the node makes itself");
}

export async function markInputsApplied(): Promise<StepReport> {
  return succeeded("the chain declares no inputs that were given");
}
