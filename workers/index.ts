import { createApp } from "./api/app.ts";
import { handleScheduled } from "./cron/index.ts";
import { handleQueue } from "./queues/index.ts";

export { NodeObject } from "../durable-objects/node/object.ts";

export { ProvisionNode } from "./workflows/provision-node.ts";
export { ReenrollNode } from "./workflows/reenroll-node.ts";
export { TerminateNode } from "./workflows/terminate-node.ts";

const api = createApp();

export default {
  fetch(request, env, context) {
    return api.fetch(request, env, context);
  },
  queue(batch, env) {
    return handleQueue(batch, env);
  },
  scheduled(controller, env) {
    return handleScheduled(controller.scheduledTime, env);
  },
} satisfies ExportedHandler<Env>;
