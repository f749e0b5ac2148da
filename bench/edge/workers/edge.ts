import { z } from "zod";
import { parseSettings } from "../../../domain/config.ts";
import { NodeObject as ProductNodeObject } from "../../../durable-objects/node/object.ts";
import product from "../../../workers/index.ts";
import { drainQuietly, seenEvents } from "./drain.ts";
import { FastClock } from "./fast-clock.ts";
import { allMetered, ObjectMeter, resetMeters } from "./meter.ts";
import { commandStates, enqueueRestart, makeNodes, nodeStates } from "./nodes.ts";

/**
 * The product with a meter at its objects' boundary, a clock that can run faster, and private routes under /bench by which
 * a bench makes nodes and reads the meter. It is no part of any deployment.
 */

export * from "../../../workers/index.ts";

const settingsSchema = z.object({
  /** Seconds of the Worker's clock in a real one, and when it began to run so. */
  BENCH_CLOCK_SPEED: z.coerce.number().int().min(1),
  BENCH_CLOCK_FROM: z.coerce.number(),
  /** `none`: nodes have no rows, and outboxes are read by the bench. */
  BENCH_DATABASE: z.enum(["none", "embedded"]),
});

const makeSchema = z.object({
  nodeIds: z.array(z.uuid()).max(2_000),
  state: z.enum(["provisioning", "syncing"]),
});
const nodesSchema = z.object({ nodeIds: z.array(z.uuid()).max(2_000) });

let clock: FastClock | null = null;

function settingsOf(env: unknown) {
  return parseSettings(settingsSchema, "The bench's Worker", env);
}

/** Sets the isolate's clock once, before anything has read it. */
function startClock(env: unknown): FastClock | null {
  const { BENCH_CLOCK_SPEED: speed, BENCH_CLOCK_FROM: from } = settingsOf(env);
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
    if (!pathname.startsWith("/bench/")) return product.fetch(request, env, context);
    const answer = await answerBench(`${request.method} ${pathname}`, request, env);
    return answer === null ? new Response(null, { status: 404 }) : Response.json(answer);
  },
  queue(batch, env) {
    startClock(env);
    return settingsOf(env).BENCH_DATABASE === "none" ? drainQuietly(batch, env) : product.queue(batch, env);
  },
  scheduled(controller, env) {
    startClock(env);
    return product.scheduled(controller, env);
  },
} satisfies ExportedHandler<Env>;

async function answerBench(route: string, request: Request, env: Env): Promise<unknown> {
  const nodeIds = async () => nodesSchema.parse(await request.json()).nodeIds;
  switch (route) {
    case "POST /bench/nodes":
      return makeNodes(env, {
        ...makeSchema.parse(await request.json()),
        hasRows: settingsOf(env).BENCH_DATABASE === "embedded",
      });
    case "POST /bench/states":
      return nodeStates(env, await nodeIds());
    case "POST /bench/commands":
      return enqueueRestart(env, await nodeIds());
    case "POST /bench/command-states":
      return commandStates(env, await nodeIds());
    case "GET /bench/events":
      return seenEvents();
    case "GET /bench/meter":
      return allMetered();
    case "POST /bench/meter/reset":
      resetMeters();
      return {};
    default:
      return null;
  }
}
