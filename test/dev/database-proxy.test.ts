import { request } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import fc from "fast-check";
import { afterEach, describe, it } from "vitest";
import { type DatabaseProxy, startDatabaseProxy, TerminateWatcher } from "../../dev/database-proxy.ts";

/** A startup message, a query and the goodbye, as a client sends them. */
const STARTUP = message(null, Buffer.concat([int32(196_608), Buffer.from("user\0postgres\0\0")]));
const SSL_REQUEST = message(null, int32(80_877_103));
const QUERY = message("Q", Buffer.from("select 'X\0\0\0\x04'\0"));
const TERMINATE = message("X", Buffer.alloc(0));

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function message(type: string | null, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(type ?? ""), int32(body.length + 4), body]);
}

describe("the watcher for Terminate", () => {
  it("sees the goodbye and nothing else, wherever the stream is cut", ({ expect }) => {
    const stream = Buffer.concat([SSL_REQUEST, STARTUP, QUERY, QUERY, TERMINATE]);
    fc.assert(
      fc.property(fc.uniqueArray(fc.integer({ min: 1, max: stream.length - 1 })), (cuts) => {
        const ends = [...cuts.sort((a, b) => a - b), stream.length];
        const watcher = new TerminateWatcher();
        const seen = ends.map((end, index) => watcher.sees(stream.subarray(ends[index - 1] ?? 0, end)));
        const first = seen.indexOf(true);
        // The type byte of Terminate and its length decide, so it is seen with the last of the five bytes.
        expect(first).toBe(ends.indexOf(stream.length));
      }),
    );
  });

  it("is not taken in by a query that looks like one", ({ expect }) => {
    expect(new TerminateWatcher().sees(Buffer.concat([STARTUP, QUERY, QUERY]))).toBe(false);
  });
});

describe("the database proxy", () => {
  const open: (Server | DatabaseProxy)[] = [];
  afterEach(async () => {
    for (const entry of open.splice(0)) {
      if ("stop" in entry) await entry.stop();
      else await new Promise((resolve) => entry.close(resolve));
    }
  });

  async function behindProxy(onConnection: (socket: Socket) => void) {
    const server = createServer(onConnection);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    const port = address !== null && typeof address === "object" ? address.port : 0;
    const proxy = await startDatabaseProxy({ databaseUrl: `postgres://u@127.0.0.1:${port}/db` });
    open.push(proxy, server);
    return { url: `ws://${proxy.wsProxy}?address=127.0.0.1:${port}`, proxy, port };
  }

  it("carries bytes both ways and ends the connection at the goodbye", async ({ expect }) => {
    const ended = Promise.withResolvers<void>();
    const { url } = await behindProxy((socket) => {
      socket.on("data", (chunk) => socket.write(chunk)).on("end", ended.resolve);
    });
    const client = new WebSocket(url);
    client.binaryType = "arraybuffer";
    await event(client, "open");
    const echoed = event(client, "message");
    client.send(new Uint8Array(STARTUP));
    const { data } = await echoed;
    expect(Buffer.from(data)).toEqual(STARTUP);
    const closed = event(client, "close");
    client.send(new Uint8Array(TERMINATE));
    await Promise.all([ended.promise, closed]);
  });

  it("closes the client's socket when the database is lost", async ({ expect }) => {
    const { url } = await behindProxy((socket) => socket.destroy());
    const client = new WebSocket(url);
    expect((await event(client, "close")).type).toBe("close");
  });

  it("forwards to the one database that it was started for, and never for a web page", async ({ expect }) => {
    const { proxy, port } = await behindProxy(() => undefined);
    const status = async (target: string, headers: Record<string, string> = {}) => {
      const upgrade = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13" };
      return upgradeStatus(`http://${proxy.wsProxy}${target}`, {
        ...upgrade,
        "sec-websocket-key": "MDEyMzQ1Njc4OWFiY2RlZg==",
        ...headers,
      });
    };
    expect(await status(`?address=127.0.0.1:${port}`)).toBe(101);
    expect(await status("?address=127.0.0.1:22")).toBe(403);
    expect(await status("?address=example.com:5432")).toBe(403);
    expect(await status("")).toBe(403);
    expect(await status(`?address=127.0.0.1:${port}`, { origin: "http://evil.test" })).toBe(403);
  });
});

function event<K extends keyof WebSocketEventMap>(socket: WebSocket, type: K): Promise<WebSocketEventMap[K]> {
  return new Promise((resolve) => socket.addEventListener(type, resolve, { once: true }));
}

function upgradeStatus(url: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { headers });
    sent.on("upgrade", (response, socket) => {
      socket.destroy();
      resolve(response.statusCode ?? 0);
    });
    sent.on("response", (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on("error", reject);
    sent.end();
  });
}
