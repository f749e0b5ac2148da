import type { EpochMs } from "../node/node.ts";
import { parseHostTag } from "./ids.ts";

/** A live host at a provider. */
export interface LiveHost {
  readonly providerHostId: string;
  readonly tag: string;
  readonly createdAt: EpochMs;
}

/** What Postgres knows of a host's node. */
export interface HostOwner {
  readonly nodeId: string;
  readonly ended: boolean;
  readonly sagaRunning: boolean;
}

/**
 * The hosts that nobody will ever destroy: tagged for a node that has ended, with no saga at work on it, and old enough
 * that no create or migration can still be about to enter it in its table (DESIGN section 14: not younger than 1 h).
 * A host whose node is unknown is nobody's to destroy; a person has to look.
 */
export function orphanHosts(
  hosts: readonly LiveHost[],
  owners: ReadonlyMap<string, HostOwner>,
  now: EpochMs,
  notYoungerMs: number,
): { readonly orphans: readonly LiveHost[]; readonly unknown: readonly LiveHost[] } {
  const ours = hosts.filter(({ tag, createdAt }) => parseHostTag(tag) !== null && now - createdAt >= notYoungerMs);
  const ownerOf = (host: LiveHost) => owners.get(parseHostTag(host.tag)?.nodeId ?? "");
  return {
    orphans: ours.filter((host) => {
      const owner = ownerOf(host);
      return owner?.ended === true && !owner.sagaRunning;
    }),
    unknown: ours.filter((host) => ownerOf(host) === undefined),
  };
}

/** A host's row as the rule needs it: `markedAt` is when it was marked for destruction. */
export interface DestroyingHost {
  readonly providerHostId: string | null;
  readonly adopted: boolean;
  readonly markedAt: EpochMs;
}

/**
 * Whether "the provider has no host with this tag" is final. Where an answer of a create was lost, the create may
 * still finish and put a host there, so the row is kept and its tag looked for until that cannot be any more.
 */
export function isCreateSettled(host: DestroyingHost, now: EpochMs, settleMs: number): boolean {
  const everyAnswerArrived = host.providerHostId !== null && !host.adopted;
  return everyAnswerArrived || now - host.markedAt >= settleMs;
}
