import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** HTTP/2 and gRPC as bytes, so that tests can write what no client library would. */

export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

const TYPE = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;
export type FrameType = keyof typeof TYPE | number;

const FLAG = { ack: 1, endStream: 1, endHeaders: 4 } as const;

/** One frame; the length can be made to lie. */
export function frame(
  type: FrameType,
  flags: number,
  streamId: number,
  payload: Uint8Array = new Uint8Array(),
  length = payload.length,
): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(length, 0, 3);
  head.writeUInt8(typeof type === "number" ? type : TYPE[type], 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(streamId, 5);
  return Buffer.concat([head, payload]);
}

/** A header block without compression. */
export function headerBlock(headers: Readonly<Record<string, string>>): Buffer {
  const parts = Object.entries(headers).map(([name, value]) =>
    Buffer.concat([Buffer.from([0]), text(name), text(value)]),
  );
  return Buffer.concat(parts);
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes]);
  const length = [127];
  let rest = bytes.length - 127;
  for (; rest >= 128; rest >>= 7) length.push((rest & 127) | 128);
  return Buffer.concat([Buffer.from([...length, rest]), bytes]);
}

const SERVICE = "/orrery.agent.v1.AgentGateway";

export type Method = "Enroll" | "Session" | "Heartbeat" | "Report";

/** The headers by which a gRPC client begins a call. */
export function callHeaders(method: Method, extra: Readonly<Record<string, string>> = {}): Record<string, string> {
  return {
    ":method": "POST",
    ":scheme": "http",
    ":path": `${SERVICE}/${method}`,
    ":authority": "bridge",
    "content-type": "application/grpc",
    te: "trailers",
    ...extra,
  };
}

export function beginCall(streamId: number, method: Method, extra: Readonly<Record<string, string>> = {}): Buffer {
  return frame("headers", FLAG.endHeaders, streamId, headerBlock(callHeaders(method, extra)));
}

/** A message as gRPC frames it; the length and the compressed flag can be made to lie. */
export function grpcMessage(bytes: Uint8Array, { length = bytes.length, compressed = 0 } = {}): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(compressed, 0);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, bytes]);
}

/** The metadata of a session, as headers. */
export const TICKET_HEADERS: Readonly<Record<string, string>> = {
  "orrery-node": "node-1",
  "orrery-generation": "1",
  "orrery-installation": "5f0c7f7e-0d0e-4c39-9f0e-0a4c8e1d2b3c",
  "orrery-epoch": "7",
  "orrery-ticket": "ab".repeat(32),
  "orrery-signature": "cd".repeat(64),
};

/** A bare connection to a bridge. */
export class Wire {
  readonly socket: Socket;
  readonly received: Buffer[] = [];
  readonly closed: Promise<unknown>;

  static async open(port: number): Promise<Wire> {
    const wire = new Wire(port);
    await Promise.race([once(wire.socket, "connect"), wire.closed]);
    return wire;
  }

  /** A connection on which HTTP/2 has begun. */
  static async greeted(port: number): Promise<Wire> {
    const wire = await Wire.open(port);
    wire.write(PREFACE, frame("settings", 0, 0), frame("settings", FLAG.ack, 0));
    return wire;
  }

  private constructor(port: number) {
    this.socket = connect({ port, host: "127.0.0.1", noDelay: true });
    this.socket.on("error", () => undefined);
    this.socket.on("data", (chunk: Buffer) => this.received.push(chunk));
    this.closed = new Promise((resolve) => this.socket.once("close", resolve));
  }

  get isClosed(): boolean {
    return this.socket.destroyed;
  }

  /** All that came, as latin1: header values that are not compressed can be found in it. */
  get text(): string {
    return Buffer.concat(this.received).toString("latin1");
  }

  write(...parts: readonly Uint8Array[]): void {
    if (!this.socket.destroyed) this.socket.write(Buffer.concat(parts));
  }

  /** Writes, says that there is no more, and waits until the other side has closed or `withinMs` are over. */
  async spend(bytes: Uint8Array, withinMs: number): Promise<void> {
    this.write(bytes);
    this.socket.end();
    await Promise.race([this.closed, new Promise((resolve) => setTimeout(resolve, withinMs))]);
    this.socket.destroy();
  }

  destroy(): void {
    this.socket.destroy();
  }
}
