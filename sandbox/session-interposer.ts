import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { buffer } from "node:stream/consumers";
import { type RawData, WebSocket, WebSocketServer } from "ws";
import type { CommandType } from "../proto/gen/orrery/agent/v1/gateway_pb.js";
import { type Direction, type ReadFrame, readFrame } from "./session-frames.ts";

/**
 * Stands between agents that connect directly and the edge, sees each frame, and lets a test act when one passes, or cut the line:
 * `pause` holds all that passes, closes and new connections too, so that neither side learns anything (a silent cut);
 * `drop` closes the connections. Enrolments pass through as they are.
 */
export interface SessionInterposer {
  readonly url: string;
  /** Acts once, at the first frame that matches: instead of delivering it, or after it was delivered. */
  once(rule: FrameRule): Promise<void>;
  /** Frames by kind since the start; `ping` and `pong` included. */
  readonly seen: readonly SeenFrame[];
  pause(): void;
  resume(): void;
  drop(): void;
  stop(): Promise<void>;
}

/** `kind` may also be `ping` or `pong`; a command's type is known as soon as the command has passed. */
export interface SeenFrame extends ReadFrame {
  readonly direction: Direction;
  readonly path: string;
  /** When it was passed on, in milliseconds since the epoch. */
  readonly at: number;
}

export interface FrameRule {
  matches(frame: SeenFrame): boolean;
  readonly boundary: "instead" | "after";
  act(): Promise<void>;
}

interface ArmedRule {
  readonly rule: FrameRule;
  settle(result: Promise<void>): void;
}

export async function startSessionInterposer(targetUrl: string): Promise<SessionInterposer> {
  const armed: ArmedRule[] = [];
  const seen: SeenFrame[] = [];
  const pairs = new Set<{ readonly agent: WebSocket; readonly edge: WebSocket }>();
  const held: (() => void)[] = [];
  const typeOfCommand = new Map<string, CommandType>();
  let paused = false;

  function unlessPaused(work: () => void): void {
    if (paused) held.push(work);
    else work();
  }

  function pass(direction: Direction, path: string, data: RawData, isBinary: boolean, deliver: () => void): void {
    const frame = describe(direction, path, data, isBinary, typeOfCommand);
    seen.push(frame);
    const index = armed.findIndex(({ rule }) => rule.matches(frame));
    const hit = index === -1 ? undefined : armed.splice(index, 1)[0];
    if (hit?.rule.boundary !== "instead") deliver();
    if (hit !== undefined) hit.settle(hit.rule.act());
  }

  const server = createServer((request, response) => {
    unlessPaused(() => void passOn(targetUrl, request, response).catch(() => response.destroy()));
  });
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", () => socket.destroy());
    unlessPaused(() => connect(request, socket, head));
  });

  function connect(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (socket.destroyed) return;
    const path = request.url ?? "/";
    const edge = new WebSocket(`${targetUrl.replace(/^http/, "ws")}${path}`, {
      headers: forwardedHeaders(request),
      perMessageDeflate: false,
    });
    edge.once("unexpected-response", (_request, response) => {
      socket.end(`HTTP/1.1 ${response.statusCode} ${response.statusMessage}\r\nConnection: close\r\n\r\n`);
    });
    edge.on("error", () => socket.destroy());
    edge.once("open", () => {
      sockets.handleUpgrade(request, socket, head, (agent) => join(path, agent, edge));
    });
  }

  function join(path: string, agent: WebSocket, edge: WebSocket): void {
    const pair = { agent, edge };
    pairs.add(pair);
    const relay = (direction: Direction, from: WebSocket, to: WebSocket) =>
      from.on("message", (data, isBinary) =>
        unlessPaused(() => pass(direction, path, data, isBinary, () => send(to, data, isBinary))),
      );
    relay("up", agent, edge);
    relay("down", edge, agent);
    const end = () => {
      pairs.delete(pair);
      agent.terminate();
      edge.terminate();
    };
    for (const side of [agent, edge]) side.on("close", () => unlessPaused(end)).on("error", () => unlessPaused(end));
  }

  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The interposer has no port.");

  const dropAll = () => {
    for (const { agent, edge } of pairs) {
      agent.terminate();
      edge.terminate();
    }
  };
  return {
    url: `http://127.0.0.1:${address.port}`,
    seen,
    once(rule) {
      const { promise, resolve } = Promise.withResolvers<void>();
      armed.push({ rule, settle: resolve });
      return promise;
    },
    pause() {
      paused = true;
    },
    resume() {
      paused = false;
      for (const release of held.splice(0)) release();
    },
    drop: dropAll,
    async stop() {
      dropAll();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** What an agent's connection or enrolment says of itself. */
const PASSED_HEADERS = [
  "authorization",
  "content-type",
  "orrery-generation",
  "orrery-installation",
  "orrery-epoch",
  "orrery-signature",
] as const;

function forwardedHeaders({ headers }: IncomingMessage): Record<string, string> {
  const passed = PASSED_HEADERS.flatMap((name) => {
    const value = headers[name];
    return typeof value === "string" ? [[name, value] as const] : [];
  });
  return Object.fromEntries(passed);
}

async function passOn(targetUrl: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = "GET", url = "/" } = request;
  const body = method === "GET" || method === "HEAD" ? undefined : new Uint8Array(await buffer(request));
  const answer = await fetch(`${targetUrl}${url}`, {
    method,
    headers: forwardedHeaders(request),
    ...(body === undefined ? {} : { body }),
  });
  const bytes = Buffer.from(await answer.arrayBuffer());
  response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "text/plain" }).end(bytes);
}

function send(socket: WebSocket, data: RawData, isBinary: boolean): void {
  if (socket.readyState === WebSocket.OPEN) socket.send(toBuffer(data), { binary: isBinary });
}

function describe(
  direction: Direction,
  path: string,
  data: RawData,
  isBinary: boolean,
  typeOfCommand: Map<string, CommandType>,
): SeenFrame {
  const bytes = toBuffer(data);
  const at = Date.now();
  if (!isBinary) return { direction, path, at, kind: bytes.toString("utf8"), commandId: null, commandType: null };
  const frame = readFrame(direction, bytes);
  const { commandId } = frame;
  if (commandId === null) return { direction, path, at, ...frame };
  if (frame.commandType !== null) typeOfCommand.set(commandId, frame.commandType);
  return { direction, path, at, ...frame, commandType: typeOfCommand.get(commandId) ?? null };
}

function toBuffer(data: RawData): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data);
  return Buffer.isBuffer(data) ? data : Buffer.from(data);
}
