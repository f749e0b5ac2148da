import { DurableObject, WorkflowEntrypoint } from "cloudflare:workers";
export class NodeObject extends DurableObject {}
export class ProvisionNode extends WorkflowEntrypoint {
  async run() {}
}
export class TerminateNode extends WorkflowEntrypoint {
  async run() {}
}
export default {
  fetch() {
    return new Response("x");
  },
} satisfies ExportedHandler;
