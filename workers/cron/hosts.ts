import { type HostRow, hostOwners, hostsLeftDestroying } from "../../db/hosts.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import { orphanHosts } from "../../domain/saga/host-sweep.ts";
import { parseHostTag } from "../../domain/saga/ids.ts";
import { errorText, log } from "../../durable-objects/shared/log.ts";
import type { InfrastructureProvider } from "../../integrations/infrastructure/provider.ts";
import { closeDestroyed, destroyByTag } from "../workflows/activities/hosts.ts";
import { forEachBounded } from "./bounded.ts";
import type { SweepCounts, SweepDeps } from "./deps.ts";

/**
 * Destroys what sagas left at providers: hosts whose row says so, and old hosts that carry the tag of a node which has
 * ended. A host of a node that lives, or on which a saga is at work, is never touched.
 */
export async function sweepHosts(deps: SweepDeps): Promise<SweepCounts> {
  const marked = await sweepMarked(deps);
  const orphaned = await sweepOrphans(deps);
  return { ...marked, ...orphaned };
}

/** Rows in `destroying`: looked for by tag again and again, until an unanswered create cannot add a host any more. */
async function sweepMarked(deps: SweepDeps): Promise<SweepCounts> {
  const { sweepBatch, sweepParallel } = DEFAULTS.infrastructure;
  const rows = await deps.database((db) =>
    hostsLeftDestroying(db, deps.config.TENANT, new Date(deps.now()), sweepBatch),
  );
  const counts = { marked: rows.length, destroyed: 0, closed: 0, failed: 0 };
  await forEachBounded(rows, sweepParallel, async (row) => {
    try {
      const { destroyed, closed } = await sweepHost(deps, row);
      counts.destroyed += destroyed;
      counts.closed += closed ? 1 : 0;
    } catch (thrown) {
      counts.failed += 1;
      log("error", "host not destroyed", { tag: row.tag, error: errorText(thrown) });
    }
  });
  return counts;
}

/** Destroys what carries the row's tag, and closes the row once nothing more can come. */
export async function sweepHost(
  deps: SweepDeps,
  row: HostRow,
): Promise<{ readonly destroyed: number; readonly closed: boolean }> {
  const provider = deps.provider(row.provider);
  const destroyed = await destroyByTag(provider, row.tag);
  const left = await provider.findByTag(row.tag);
  return { destroyed, closed: left.length === 0 && (await closeDestroyed(deps, row)) };
}

async function sweepOrphans(deps: SweepDeps): Promise<SweepCounts> {
  const counts = { orphans: 0, unknown: 0, orphansFailed: 0 };
  for (const provider of deps.providers()) {
    try {
      const { orphans, unknown } = await findOrphans(deps, provider);
      for (const { tag } of unknown) log("warn", "host of an unknown node", { tag, provider: provider.name });
      counts.unknown += unknown.length;
      for (const host of orphans.slice(0, DEFAULTS.infrastructure.sweepBatch)) {
        log("warn", "orphan host destroyed", { tag: host.tag, provider: provider.name });
        await provider.destroy(host.providerHostId);
        counts.orphans += 1;
      }
    } catch (thrown) {
      counts.orphansFailed += 1;
      log("error", "provider not swept", { provider: provider.name, error: errorText(thrown) });
    }
  }
  return counts;
}

async function findOrphans(deps: SweepDeps, provider: InfrastructureProvider) {
  // The provider first: a host that is younger than the answer cannot be mistaken for one without a row.
  const live = await provider.list();
  const nodeIds = [...new Set(live.flatMap(({ tag }) => parseHostTag(tag)?.nodeId ?? []))];
  const owners = await deps.database((db) => hostOwners(db, deps.config.TENANT, nodeIds));
  return orphanHosts(live, owners, deps.now(), DEFAULTS.infrastructure.sweepNotYoungerMs);
}
