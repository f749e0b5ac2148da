import product from "../../workers/index.ts";

export * from "../../workers/index.ts";

/** A message on its way to the queue that only a test sends. */
const PLANT = "/test/queue";

/** The product's Worker, which also prints every message that comes out of a queue: the local runtime keeps queues in memory. */
export default {
  ...product,
  async fetch(request, env, context) {
    if (new URL(request.url).pathname !== PLANT) return product.fetch(request, env, context);
    await env.HEALTH_EVENTS.send(await request.json());
    return new Response(null, { status: 204 });
  },
  async queue(batch, env) {
    for (const { body } of batch.messages) console.log(JSON.stringify({ queue: batch.queue, body }));
    await product.queue(batch, env);
  },
} satisfies ExportedHandler<Env>;
