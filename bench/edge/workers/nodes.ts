import { uuidv7 } from "uuidv7";
import { withDatabase } from "../../../db/client.ts";
import { nodes, subscriptions } from "../../../db/schema.ts";
import { deriveNodeToken } from "../../../domain/auth/node-token.ts";
import { parseConfig } from "../../../domain/config.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import type { CommandView } from "../../../domain/node/command.ts";
import type { NodeBirth } from "../../../domain/node/node.ts";
import { callNode } from "../../../durable-objects/shared/stubs.ts";
import { forEachBounded } from "../../../workers/cron/bounded.ts";

/** The generation that every node of a bench expects. */
const GENERATION = 1;
const PARALLEL = 20;
const TTL_MS = DEFAULTS.command.ttlMs;

export interface NodesToMake {
  readonly nodeIds: readonly string[];
  /** In `syncing` their provisioning is over; in `provisioning` nobody watches for their silence yet. */
  readonly state: "provisioning" | "syncing";
  /** Whether they get rows in Postgres as well. */
  readonly hasRows: boolean;
}

/** Nodes whose agents have yet to come; answers their tokens. */
export async function makeNodes(env: Env, { nodeIds, state, hasRows }: NodesToMake) {
  const { TENANT, MASTER_SECRET } = parseConfig(env);
  const births = nodeIds.map((nodeId) => birthOf(nodeId, TENANT));
  if (hasRows) await insertRows(env, births);
  await forEachBounded(births, PARALLEL, (birth) => begin(env, birth, state));
  return Promise.all(
    nodeIds.map(async (nodeId) => ({
      nodeId,
      generation: GENERATION,
      nodeToken: await deriveNodeToken(MASTER_SECRET, nodeId, GENERATION),
    })),
  );
}

/** How many nodes are in each state. */
export async function nodeStates(env: Env, nodeIds: readonly string[]): Promise<Readonly<Record<string, number>>> {
  const states: Record<string, number> = {};
  await forEachBounded(nodeIds, PARALLEL, async (nodeId) => {
    const { state } = await callNode(env, nodeId, (node) => node.view());
    states[state] = (states[state] ?? 0) + 1;
  });
  return states;
}

/** A command to each node, straight at its object. */
export async function enqueueRestart(env: Env, nodeIds: readonly string[]) {
  const commands: CommandView[] = [];
  await forEachBounded(nodeIds, PARALLEL, async (nodeId) => {
    const commandId = uuidv7();
    const request = {
      commandId,
      payload: { type: "RESTART" } as const,
      ttlMs: TTL_MS,
      idempotencyKey: commandId,
      requestedBy: "bench",
      notify: null,
    };
    commands.push(await callNode(env, nodeId, (node) => node.enqueueCommand(request)));
  });
  return commands.map(({ commandId, state }) => ({ commandId, state }));
}

/** The newest command of each node. */
export async function commandStates(env: Env, nodeIds: readonly string[]) {
  const found: { readonly commandId: string; readonly state: string }[] = [];
  await forEachBounded(nodeIds, PARALLEL, async (nodeId) => {
    const { items } = await callNode(env, nodeId, (node) => node.commands({ limit: 1, before: null }));
    found.push(...items.map(({ commandId, state }) => ({ commandId, state })));
  });
  return found;
}

async function begin(env: Env, birth: NodeBirth, state: NodesToMake["state"]): Promise<void> {
  await callNode(env, birth.nodeId, (node) => node.initialise(birth));
  await callNode(env, birth.nodeId, (node) => node.expectInstallation(GENERATION, null));
  if (state === "provisioning") return;
  await callNode(env, birth.nodeId, (node) => node.transition("syncing", "provision_saga", null));
}

/** What the API and the saga would have written. */
async function insertRows(env: Env, births: readonly NodeBirth[]): Promise<void> {
  const createdAt = new Date();
  const paid = { instanceType: "process", status: "active" };
  await withDatabase(parseConfig(env), async (db) => {
    await db.insert(subscriptions).values(
      births.map(({ nodeId, tenant, chain, nodeType, provider, region }) => {
        return { id: nodeId, tenant, chain, nodeType, provider, region, createdAt, ...paid };
      }),
    );
    await db.insert(nodes).values(
      births.map(({ nodeId, tenant, subscriptionId, chain, nodeType, chainContentHash, provider, region }) => {
        const facts = { tenant, subscriptionId, chain, nodeType, chainContentHash, provider, region };
        return { id: nodeId, ...facts, createdAt, stateSince: createdAt };
      }),
    );
  });
}

function birthOf(nodeId: string, tenant: string): NodeBirth {
  return {
    nodeId,
    tenant,
    subscriptionId: nodeId,
    userId: null,
    chain: "bench",
    nodeType: "full",
    chainContentHash: "sha256:00",
    provider: "local",
    region: "local",
    createdAt: Date.now(),
  };
}
