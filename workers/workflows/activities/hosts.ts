import {
  type HostRow,
  markHostCreating,
  markHostDestroyed,
  markHostRunning,
  markHostsDestroying,
} from "../../../db/hosts.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { OrreryError } from "../../../domain/errors.ts";
import { isCreateSettled } from "../../../domain/saga/host-sweep.ts";
import { hostTag } from "../../../domain/saga/ids.ts";
import type { Host, InfrastructureProvider } from "../../../integrations/infrastructure/provider.ts";
import { agentBootstrap } from "../../agent-bootstrap.ts";
import type { AgentSaga, SagaDeps, SagaRef } from "../deps.ts";
import { type StepReport, succeeded } from "../step-record.ts";
import { loadNode, requireProvisioning, viewNode } from "./nodes.ts";

/**
 * Gets the node its host. The row that says "about to create" is committed before the provider is asked; where it was
 * there already, an earlier try may have reached the provider, so its host is looked for first and adopted.
 * @throws saga_superseded when the host is to be destroyed meanwhile
 */
export async function runTerraform(deps: SagaDeps, saga: AgentSaga): Promise<StepReport> {
  const { node, instanceType } = await loadNode(deps, saga);
  requireProvisioning((await viewNode(deps, saga)).state);
  const tag = hostTag(node.id, saga.generation);
  const { row, first } = await deps.database((db) =>
    markHostCreating(
      db,
      {
        tag,
        tenant: node.tenant,
        nodeId: node.id,
        generation: saga.generation,
        provider: node.provider,
        region: node.region,
        instanceType,
      },
      new Date(deps.now()),
    ),
  );
  if (row.status !== "creating" && row.status !== "running") throw superseded();
  const provider = deps.provider(row.provider);
  const [left] = first ? [] : await provider.findByTag(tag);
  const host = left ?? (await createHost(deps, provider, row));
  const kept = await deps.database((db) =>
    markHostRunning(
      db,
      tag,
      { providerHostId: host.providerHostId, address: host.address, adopted: !first },
      new Date(deps.now()),
    ),
  );
  if (!kept) throw superseded();
  return succeeded(left === undefined ? "a host was created" : "the host of an earlier try was adopted");
}

/** The token is derived here, where the provider is called, so that it is in no parameter and no step result. */
async function createHost(deps: SagaDeps, provider: InfrastructureProvider, row: HostRow): Promise<Host> {
  const { nodeId, generation, tag, region, instanceType } = row;
  const agent = await agentBootstrap(deps.config, nodeId, generation);
  return provider.create({ tag, region, instanceType, agent });
}

function superseded(): OrreryError {
  return new OrreryError("saga_superseded", "The node's hosts are being destroyed.");
}

/** Marks all of the node's hosts for destruction, for good, and destroys what its provider has under their tags. */
export async function destroyHosts(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  const rows = await deps.database((db) => markHostsDestroying(db, saga.nodeId, new Date(deps.now())));
  let destroyed = 0;
  for (const row of rows) destroyed += await destroyHost(deps.provider(row.provider), row);
  return succeeded(destroyed === 0 ? "there was no host" : "the host was destroyed");
}

/**
 * Destroys every host that carries the row's tag, and the one whose id the row knows: a provider's search can be behind,
 * and a host that it does not show would be left. Answers how many were asked to go.
 */
async function destroyHost(provider: InfrastructureProvider, { tag, providerHostId }: HostRow): Promise<number> {
  const found = await provider.findByTag(tag);
  const ids = new Set(found.map((host) => host.providerHostId));
  if (providerHostId !== null) ids.add(providerHostId);
  for (const id of ids) await provider.destroy(id);
  return ids.size;
}

/** Destroys every host that the provider still shows under the tag; answers how many there were. */
export async function destroyByTag(provider: InfrastructureProvider, tag: string): Promise<number> {
  const found = await provider.findByTag(tag);
  for (const host of found) await provider.destroy(host.providerHostId);
  return found.length;
}

/**
 * Asks the provider whether anything is left, and closes the rows of which nothing can come any more. A row whose
 * create was never answered stays `destroying`, and the hosts sweep goes on looking for its tag.
 * @throws cleanup_incomplete, retryable, when a host is still there
 */
export async function verifyCleanup(deps: SagaDeps, saga: SagaRef): Promise<StepReport> {
  const rows = await deps.database((db) => markHostsDestroying(db, saga.nodeId, new Date(deps.now())));
  let watched = 0;
  for (const row of rows) {
    const left = await destroyByTag(deps.provider(row.provider), row.tag);
    if (left > 0) {
      throw new OrreryError("cleanup_incomplete", "A host was still at the provider.", { retryable: true });
    }
    if (!(await closeDestroyed(deps, row))) watched += 1;
  }
  return succeeded(
    watched === 0 ? "nothing is left" : "nothing is left; a create that was never answered is watched for",
  );
}

/** Closes the row of a host that its provider does not have, unless an unanswered create may still put one there. */
export async function closeDestroyed(
  deps: Pick<SagaDeps, "database" | "now">,
  { tag, providerHostId, adopted, updatedAt }: HostRow,
): Promise<boolean> {
  const host = { providerHostId, adopted, markedAt: updatedAt.getTime() };
  if (!isCreateSettled(host, deps.now(), DEFAULTS.infrastructure.createSettleMs)) return false;
  await deps.database((db) => markHostDestroyed(db, tag, new Date(deps.now())));
  return true;
}
