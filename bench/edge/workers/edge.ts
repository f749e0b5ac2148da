import { z } from "zod";
import { withDatabase } from "../../../db/client.ts";
import { nodes, subscriptions } from "../../../db/schema.ts";
import { deriveNodeToken } from "../../../domain/auth/node-token.ts";
import { parseConfig, parseSettings } from "../../../domain/config.ts";
import type { NodeBirth } from "../../../domain/node/node.ts";
import { NodeObject as ProductNodeObject } from "../../../durable-objects/node/object.ts";
import { callNode } from "../../../durable-objects/shared/stubs.ts";
import { forEachBounded } from "../../../workers/cron/bounded.ts";
import product from "../../../workers/index.ts";
import { FastClock } from "./fast-clock.ts";
import { allMetered, ObjectMeter, resetMeters } from "./meter.ts";

/**
 * The product with a meter at its objects' boundary, a clock that can run faster, and private routes under /bench by which
 * the bench makes nodes and reads the meter. It is no part of any deployment.
 */

export * from "../../../workers/index.ts";

const settingsSchema = z.object({
  /** Seconds of the Worker's clock in a real one, and when it began to run so. */
  BENCH_CLOCK_SPEED: z.coerce.number().int().min(1).default(1),
  BENCH_CLOCK_FROM: z.coerce.number().default(0),
});

const askSchema = z.object({ nodeIds: z.array(z.uuid()).max(500) });

/** The generation that every node of a bench expects. */
const GENERATION = 1;
const PARALLEL = 20;

let clock: FastClock | null = null;

/** Sets the isolate's clock once, before anything has read it. */
function startClock(env: unknown): FastClock | null {
  const { BENCH_CLOCK_SPEED: speed, BENCH_CLOCK_FROM: from } = parseSettings(settingsSchema, "The bench's Worker", env);
  if (speed > 1) clock ??= new FastClock(from, speed);
  return clock;
}

export class NodeObject extends ProductNodeObject {
  readonly #clock: FastClock | null;
  readonly #meter: ObjectMeter;

  constructor(ctx: DurableObjectState, env: Env) {
    const clock = startClock(env);
    const meter = new ObjectMeter(ctx);
    clock?.translateAlarms(ctx.storage);
    super(ctx, env);
    this.#clock = clock;
    this.#meter = meter;
  }

  override alarm(info?: AlarmInvocationInfo): Promise<void> {
    return super.alarm(info === undefined || this.#clock === null ? info : this.#clock.alarmInfo(info));
  }

  // Every method that can be called from outside is counted by its name, whatever the product adds.
  static {
    for (const name of Object.getOwnPropertyNames(ProductNodeObject.prototype)) {
      const method: unknown = Reflect.get(NodeObject.prototype, name);
      if (name === "constructor" || typeof method !== "function") continue;
      const value = function (this: NodeObject, ...args: unknown[]) {
        return this.#meter.event(name, async () => Reflect.apply(method, this, args));
      };
      Object.defineProperty(NodeObject.prototype, name, { value });
    }
  }
}

export default {
  ...product,
  async fetch(request, env, context) {
    startClock(env);
    const { pathname } = new URL(request.url);
    switch (`${request.method} ${pathname}`) {
      case "POST /bench/nodes":
        return Response.json(await makeNodes(env, askSchema.parse(await request.json()).nodeIds));
      case "GET /bench/meter":
        return Response.json(allMetered());
      case "DELETE /bench/meter":
        resetMeters();
        return new Response(null, { status: 204 });
      default:
        return product.fetch(request, env, context);
    }
  },
} satisfies ExportedHandler<Env>;

/** Nodes whose provisioning is over and whose agents have yet to come; answers their tokens. */
async function makeNodes(env: Env, nodeIds: readonly string[]) {
  const config = parseConfig(env);
  const births = nodeIds.map((nodeId) => birthOf(nodeId, config.TENANT));
  await withDatabase(config, async (db) => {
    const createdAt = new Date();
    await db.insert(subscriptions).values(
      births.map(({ nodeId, tenant, chain, nodeType, provider, region }) => ({
        id: nodeId,
        tenant,
        chain,
        nodeType,
        provider,
        region,
        instanceType: "process",
        status: "active",
        createdAt,
      })),
    );
    await db.insert(nodes).values(
      births.map(({ nodeId, createdAt: _, ...birth }) => ({
        ...birth,
        id: nodeId,
        createdAt,
        stateSince: createdAt,
      })),
    );
  });
  await forEachBounded(births, PARALLEL, (birth) => begin(env, birth));
  return Promise.all(
    nodeIds.map(async (nodeId) => ({
      nodeId,
      generation: GENERATION,
      nodeToken: await deriveNodeToken(config.MASTER_SECRET, nodeId, GENERATION),
    })),
  );
}

async function begin(env: Env, birth: NodeBirth): Promise<void> {
  await callNode(env, birth.nodeId, (node) => node.initialise(birth));
  await callNode(env, birth.nodeId, (node) => node.expectInstallation(GENERATION, null));
  await callNode(env, birth.nodeId, (node) => node.transition("syncing", "provision_saga", null));
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
