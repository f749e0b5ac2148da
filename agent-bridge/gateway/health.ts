import { createServer, type Server, type ServerResponse } from "node:http";
import type { Bridge } from "./bridge.ts";
import type { BridgeSettings } from "./settings.ts";

const EDGE_MS = 3_000;
/** Probes come often; the edge need not hear of each. */
const EDGE_KNOWN_MS = 5_000;

/** /healthz: the process lives. /readyz: agents may be sent here. /metrics: what it counts. */
export class HealthServer {
  readonly #bridge: Bridge;
  readonly #settings: BridgeSettings;
  readonly #server: Server;
  #edge: { readonly at: number; readonly reachable: Promise<boolean> } | null = null;

  constructor(bridge: Bridge, settings: BridgeSettings) {
    this.#bridge = bridge;
    this.#settings = settings;
    this.#server = createServer({ requestTimeout: 10_000 }, (request, response) => {
      void this.#answer(request.method ?? "", request.url ?? "", response);
    });
  }

  /** Answers the port. */
  async open(): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const { host, port } = this.#settings.httpListen;
    this.#server.once("error", reject);
    this.#server.listen(port, host, resolve);
    await promise;
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : port;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(method: string, url: string, response: ServerResponse): Promise<void> {
    if (method !== "GET" && method !== "HEAD") return void response.writeHead(405, { allow: "GET, HEAD" }).end();
    switch (url.split("?")[0]) {
      case "/healthz":
        return json(response, 200, { status: "ok" });
      case "/readyz":
        return this.#ready(response);
      case "/metrics": {
        const { registry } = this.#bridge.metrics;
        response.writeHead(200, { "content-type": registry.contentType }).end(await registry.metrics());
        return;
      }
      default:
        return json(response, 404, { code: "not_found" });
    }
  }

  async #ready(response: ServerResponse): Promise<void> {
    const draining = this.#bridge.sessions.isDraining;
    const edge = await this.#edgeReachable();
    json(response, edge && !draining ? 200 : 503, { edge: edge ? "ok" : "edge_unreachable", draining });
  }

  #edgeReachable(): Promise<boolean> {
    const now = performance.now();
    if (this.#edge === null || now - this.#edge.at > EDGE_KNOWN_MS) {
      this.#edge = { at: now, reachable: isReachable(`${this.#settings.edgeUrl}/healthz`) };
    }
    return this.#edge.reachable;
  }
}

async function isReachable(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(EDGE_MS) });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
