import { createServer } from "node:http";
import { connect } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { ReadyWatcher, Turnstile } from "./turnstile.ts";

export interface DatabaseProxy {
  /** For `DATABASE_WS_PROXY`: host:port/path. */
  readonly wsProxy: string;
  stop(): Promise<void>;
}

/**
 * Carries the Neon driver's WebSocket to the TCP port of one Postgres, and to no other address. Development only: it
 * listens on the loopback address and asks for no password of its own.
 */
export async function startDatabaseProxy(options: {
  databaseUrl: string;
  port?: number;
  /**
   * For a server whose clients share one backend (PGlite): without taking turns the messages of several clients mix, one
   * client's error undoes another's statement, and committed rows are lost.
   */
  takeTurns?: boolean;
}): Promise<DatabaseProxy> {
  const target = new URL(options.databaseUrl);
  const host = target.hostname;
  const port = target.port === "" ? 5432 : Number(target.port);
  const server = createServer((_request, response) => response.writeHead(426).end());
  const turnstile = options.takeTurns === true ? new Turnstile() : null;
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
  server.on("upgrade", (request, socket, head) => {
    const url = new URL(request.url ?? "/", "http://proxy");
    const allowed = url.pathname === "/v1" && url.searchParams.get("address") === `${host}:${port}`;
    // A page in the developer's browser could reach the loopback address too; programs send no Origin.
    if (!allowed || request.headers.origin !== undefined) {
      socket.end("HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
      return;
    }
    sockets.handleUpgrade(request, socket, head, (webSocket) => relay(webSocket, host, port, turnstile));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port ?? 0, "127.0.0.1", resolve);
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The database proxy has no port.");
  return {
    wsProxy: `127.0.0.1:${address.port}/v1`,
    async stop() {
      for (const client of sockets.clients) client.terminate();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** How long the answer to a client that has left is waited for. */
const ORPHAN_MS = 10_000;

function relay(webSocket: WebSocket, host: string, port: number, turnstile: Turnstile | null): void {
  const tcp = connect({ host, port, noDelay: true });
  const turn = new Turn(turnstile, (chunk) => tcp.write(chunk));
  const client = new TerminateWatcher();
  const server = new ReadyWatcher();
  let left = false;
  const hangUp = () => {
    tcp.destroy();
    turn.end();
  };
  webSocket.on("message", (data) => {
    const chunk = toBuffer(data);
    // PGlite's socket server ignores Terminate and would keep the connection until it refuses new ones.
    if (client.sees(chunk)) webSocket.close();
    else turn.send(chunk);
  });
  webSocket.on("close", () => {
    left = true;
    // What it asked for last is under way: the next client must not be let in between question and answer.
    if (turn.isWaitingForAnswer) setTimeout(hangUp, ORPHAN_MS).unref();
    else hangUp();
  });
  webSocket.on("error", hangUp);
  tcp.on("data", (chunk) => {
    if (webSocket.readyState === webSocket.OPEN) webSocket.send(chunk);
    const ready = server.sees(chunk);
    if (ready === null) return;
    turn.answered(ready);
    if (left) hangUp();
  });
  tcp.on("close", () => {
    turn.end();
    webSocket.close();
  });
  tcp.on("error", () => webSocket.close(1011, "Postgres cannot be reached"));
}

/** One client's right to talk to a server whose clients share a backend: from its first message until the server is idle. */
class Turn {
  readonly #turnstile: Turnstile | null;
  readonly #write: (chunk: Buffer) => void;
  #backlog: Buffer[] = [];
  #state: "outside" | "queueing" | "inside" | "over" = "outside";
  #leave: (() => void) | null = null;
  isWaitingForAnswer = false;

  constructor(turnstile: Turnstile | null, write: (chunk: Buffer) => void) {
    this.#turnstile = turnstile;
    this.#write = write;
  }

  send(chunk: Buffer): void {
    if (this.#turnstile === null || this.#state === "inside") {
      this.#pass(chunk);
      return;
    }
    this.#backlog.push(chunk);
    if (this.#state === "outside") void this.#queue(this.#turnstile);
  }

  async #queue(turnstile: Turnstile): Promise<void> {
    this.#state = "queueing";
    const leave = await turnstile.enter();
    // It hung up while it queued.
    if (this.#isOver()) {
      leave();
      return;
    }
    this.#leave = leave;
    this.#state = "inside";
    for (const chunk of this.#backlog.splice(0)) this.#pass(chunk);
  }

  #isOver(): boolean {
    return this.#state === "over";
  }

  #pass(chunk: Buffer): void {
    this.isWaitingForAnswer = true;
    this.#write(chunk);
  }

  answered(ready: "idle" | "in_transaction"): void {
    this.isWaitingForAnswer = false;
    if (ready === "idle" && this.#state === "inside") this.#exit("outside");
  }

  end(): void {
    this.#exit("over");
  }

  #exit(state: "outside" | "over"): void {
    this.#state = state;
    this.#leave?.();
    this.#leave = null;
  }
}

function toBuffer(data: Buffer | ArrayBuffer | Buffer[]): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data);
  return Buffer.isBuffer(data) ? data : Buffer.from(data);
}

const SSL_REQUEST = 80_877_103;
const TERMINATE = 0x58;

/** Follows the client's messages and recognises Terminate, wherever the chunks are cut. */
export class TerminateWatcher {
  #started = false;
  #skip = 0;
  #head: Buffer = Buffer.alloc(0);

  /** Whether the client said goodbye within this chunk. */
  sees(chunk: Buffer): boolean {
    let rest = chunk;
    while (rest.length > 0) {
      const skipped = Math.min(this.#skip, rest.length);
      this.#skip -= skipped;
      rest = rest.subarray(skipped);
      // Startup: length and code. Afterwards: type and length. Both need at most eight bytes to be told apart.
      const headLength = this.#started ? 5 : 8;
      const taken = rest.subarray(0, headLength - this.#head.length);
      this.#head = Buffer.concat([this.#head, taken]);
      rest = rest.subarray(taken.length);
      if (this.#head.length < headLength) return false;
      const head = this.#head;
      this.#head = Buffer.alloc(0);
      if (this.#started) {
        if (head[0] === TERMINATE) return true;
        this.#skip = Math.max(0, head.readInt32BE(1) - 4);
      } else {
        this.#skip = Math.max(0, head.readInt32BE(0) - 8);
        this.#started = head.readInt32BE(4) !== SSL_REQUEST;
      }
    }
    return false;
  }
}
