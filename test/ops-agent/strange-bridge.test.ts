import { once } from "node:events";
import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { DEFAULTS } from "../../domain/defaults.ts";
import { BridgeWay } from "../../ops-agent/transport/grpc-way.ts";
import { type TransportEnd, ticketFor } from "../../ops-agent/transport/way.ts";
import { TOKEN } from "./support/agent-process.ts";

const FRAME = { body: { case: "sealed", value: { counter: 1n, body: new Uint8Array(64 * 1024) } } } as const;
const HELLO = { body: { case: "hello", value: new Uint8Array(8) } } as const;
const subject = { nodeId: "n", generation: 1, installationId: "i", sessionEpoch: 1 };
const ticket = ticketFor(TOKEN, subject, () => new Uint8Array(64));

/** Takes connections and calls as HTTP/2 does, and answers calls as the test says. */
async function strangeBridge(answer: (stream: ServerHttp2Stream) => void): Promise<string> {
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer();
  server.on("session", (session) => sessions.add(session.on("error", () => undefined)));
  server.on("stream", (stream) => {
    stream.on("error", () => undefined);
    answer(stream);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  const address = server.address();
  return `grpc://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
}

/** Answers a call with these bytes in place of messages. */
function answerWith(stream: ServerHttp2Stream, bytes: Uint8Array): void {
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.end(bytes);
}

/** One message as gRPC frames it: a byte for compression, four for the length that it claims, the message. */
function framed(message: Uint8Array, length = message.length): Uint8Array {
  const bytes = Buffer.alloc(5 + message.length);
  bytes.writeUInt32BE(length, 1);
  bytes.set(message, 5);
  return bytes;
}

/** Opens a session and answers how it ended, and how many messages came before. */
async function endOf(way: BridgeWay): Promise<TransportEnd & { messages: number }> {
  const { promise, resolve } = Promise.withResolvers<TransportEnd>();
  let messages = 0;
  const onMessage = () => {
    messages += 1;
  };
  way.open(ticket, { onMessage, onEnd: resolve }).send(HELLO);
  return { ...(await promise), messages };
}

describe.each(["stream", "unary"] as const)("a bridge, by %s,", (mode) => {
  it("that takes nothing costs a bounded buffer, then the session", async () => {
    const { promise, resolve } = Promise.withResolvers<TransportEnd>();
    const way = new BridgeWay({ url: await strangeBridge(() => undefined), mode });
    const transport = way.open(ticket, { onMessage: () => undefined, onEnd: resolve });
    const frames = Math.ceil((4 * DEFAULTS.bridge.bufferBytes) / FRAME.body.value.body.length);
    for (let sent = 0; sent < frames; sent += 1) transport.send(FRAME);
    expect(await promise).toEqual({ reason: "the bridge takes nothing", reconnectAfterMs: null });
    transport.send(FRAME);
    await transport.close();
  });

  it("that answers garbage costs the session and nothing else", async () => {
    let garbage: Uint8Array = new Uint8Array();
    const way = new BridgeWay({ url: await strangeBridge((stream) => answerWith(stream, garbage)), mode });
    const messages = fc.uint8Array({ maxLength: 64 }).map((message) => framed(message));
    const truncated = fc
      .tuple(fc.uint8Array({ maxLength: 64 }), fc.nat(1_000))
      .map(([m, more]) => framed(m, m.length + more));
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.uint8Array({ maxLength: 64 }), messages, truncated), async (bytes) => {
        garbage = bytes;
        expect((await endOf(way)).reason).not.toBe("");
      }),
      { numRuns: 60 },
    );
  });

  it("whose message is larger than any may be is not listened to", async () => {
    const large = framed(new Uint8Array(16), 16 * 1024 * 1024);
    const way = new BridgeWay({ url: await strangeBridge((stream) => answerWith(stream, large)), mode });
    expect(await endOf(way)).toMatchObject({ reason: expect.stringContaining("RESOURCE_EXHAUSTED"), messages: 0 });
  });
});
