import { createServer, type Server, type Socket } from "node:net";
import type { Server as GrpcServer, ServerCredentials } from "@grpc/grpc-js";
import type { BridgeMetrics } from "./metrics.ts";
import type { BridgeLimits, ListenAddress } from "./settings.ts";

interface Visitor {
  readonly socket: Socket;
  /** When it last had a session; before it had one, when it came. */
  welcomeAt: number;
}

interface FrontDoorOptions {
  readonly grpc: GrpcServer;
  readonly credentials: ServerCredentials;
  readonly listen: ListenAddress;
  readonly connectionsMax: number;
  readonly limits: BridgeLimits;
  readonly metrics: BridgeMetrics;
  /** Whence the sessions are called that the edge has taken. */
  readonly peers: () => ReadonlySet<string>;
}

/**
 * Lets connections in: at most so many at once, none that says nothing, and for long only those that bring sessions
 * which the edge has taken. gRPC itself counts none, waits for ever for the first byte of a peer, and keeps who opens a
 * call that leads to nothing.
 */
export class FrontDoor {
  readonly #options: FrontDoorOptions;
  readonly #server: Server;
  readonly #visitors = new Set<Visitor>();
  #looking: NodeJS.Timeout | null = null;

  constructor(options: FrontDoorOptions) {
    this.#options = options;
    const injector = options.grpc.createConnectionInjector(options.credentials);
    this.#server = createServer({ noDelay: true }, (socket) =>
      this.#admit(socket, () => injector.injectConnection(socket)),
    );
    this.#server.maxConnections = options.connectionsMax;
    this.#server.on("drop", () => options.metrics.refusals.inc({ code: "bridge_overloaded" }));
  }

  /** Answers the port. */
  async open(): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const { host, port } = this.#options.listen;
    this.#server.once("error", reject);
    this.#server.listen(port, host, resolve);
    await promise;
    this.#looking = setInterval(() => this.#look(), this.#options.limits.connectionIdleMs / LOOKS);
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : port;
  }

  /** Lets nobody in any more; resolves when the last has left. */
  close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    return promise;
  }

  /** Ends every connection. */
  clear(): void {
    if (this.#looking !== null) clearInterval(this.#looking);
    for (const { socket } of this.#visitors) socket.destroy();
  }

  #admit(socket: Socket, inject: () => void): void {
    const { metrics, limits } = this.#options;
    const visitor = { socket, welcomeAt: performance.now() };
    this.#visitors.add(visitor);
    metrics.connections.inc();
    // Looked at by its count of bytes: listening for them here would take them from gRPC.
    const silent = setTimeout(() => {
      if (socket.bytesRead === 0) socket.destroy();
    }, limits.openMs);
    socket.once("error", () => socket.destroy());
    socket.once("close", () => {
      clearTimeout(silent);
      this.#visitors.delete(visitor);
      metrics.connections.dec();
    });
    inject();
  }

  #look(): void {
    const peers = this.#options.peers();
    const now = performance.now();
    for (const visitor of this.#visitors) {
      const { remoteAddress, remotePort } = visitor.socket;
      if (peers.has(`${remoteAddress}:${remotePort}`)) visitor.welcomeAt = now;
      else if (now - visitor.welcomeAt > this.#options.limits.connectionIdleMs) visitor.socket.destroy();
    }
  }
}

/** How often, within the time that a connection may be without a session, is looked. */
const LOOKS = 4;
