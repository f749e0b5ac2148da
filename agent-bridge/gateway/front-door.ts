import { createServer, type Server, type Socket } from "node:net";
import type { Server as GrpcServer, ServerCredentials } from "@grpc/grpc-js";
import type { BridgeMetrics } from "./metrics.ts";
import type { ListenAddress } from "./settings.ts";

interface FrontDoorOptions {
  readonly grpc: GrpcServer;
  readonly credentials: ServerCredentials;
  readonly listen: ListenAddress;
  readonly connectionsMax: number;
  /** A connection that says nothing for so long is closed. */
  readonly openMs: number;
  readonly metrics: BridgeMetrics;
}

/**
 * Lets connections in: at most so many at once, and none that says nothing. gRPC itself counts none and waits for ever
 * for the first byte of a peer.
 */
export class FrontDoor {
  readonly #options: FrontDoorOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

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
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : port;
  }

  /** Lets nobody in any more. */
  close(): void {
    this.#server.close();
  }

  /** Ends every connection. */
  clear(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #admit(socket: Socket, inject: () => void): void {
    const { metrics } = this.#options;
    this.#sockets.add(socket);
    metrics.connections.inc();
    // Looked at by its count of bytes: listening for them here would take them from gRPC.
    const silent = setTimeout(() => {
      if (socket.bytesRead === 0) socket.destroy();
    }, this.#options.openMs);
    socket.once("error", () => socket.destroy());
    socket.once("close", () => {
      clearTimeout(silent);
      this.#sockets.delete(socket);
      metrics.connections.dec();
    });
    inject();
  }
}
