interface BareEnv {
  readonly BARE: DurableObjectNamespace;
}

/** As often as a node of ours is woken: its deadline is 120 s after its last beat, and beats are 10 s apart. */
const WAKE_MS = 115_000;

/** Hibernates with one socket and has `ping` answered by the runtime: the least that a heartbeat can cost. */
export class BareObject implements DurableObject {
  readonly #ctx: DurableObjectState;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  /** At `/woken/...` an alarm wakes the object as ours are woken; what that leaves behind is the runtime's own. */
  async fetch(request: Request): Promise<Response> {
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server);
    if (new URL(request.url).pathname.startsWith("/woken/")) await this.#ctx.storage.setAlarm(Date.now() + WAKE_MS);
    return new Response(null, { status: 101, webSocket: client });
  }

  async alarm(): Promise<void> {
    await this.#ctx.storage.setAlarm(Date.now() + WAKE_MS);
  }
}

export default {
  fetch(request, env) {
    const { pathname } = new URL(request.url);
    return pathname === "/healthz" ? new Response("ok") : env.BARE.getByName(pathname).fetch(request);
  },
} satisfies ExportedHandler<BareEnv>;
