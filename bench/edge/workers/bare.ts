interface BareEnv {
  readonly BARE: DurableObjectNamespace;
}

/** Hibernates with one socket and has `ping` answered by the runtime: the least that a heartbeat can cost. */
export class BareObject implements DurableObject {
  readonly #ctx: DurableObjectState;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  fetch(): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }
}

export default {
  fetch(request, env) {
    const { pathname } = new URL(request.url);
    return pathname === "/healthz" ? new Response("ok") : env.BARE.getByName(pathname).fetch(request);
  },
} satisfies ExportedHandler<BareEnv>;
