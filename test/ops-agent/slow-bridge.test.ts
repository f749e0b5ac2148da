import { once } from "node:events";
import { createServer, type ServerHttp2Session } from "node:http2";
import { describe, expect, it, onTestFinished } from "vitest";
import { DEFAULTS } from "../../domain/defaults.ts";
import { BridgeWay } from "../../ops-agent/transport/grpc-way.ts";
import { type TransportEnd, ticketFor } from "../../ops-agent/transport/way.ts";
import { TOKEN } from "./support/agent-process.ts";

const FRAME = { body: { case: "sealed", value: { counter: 1n, body: new Uint8Array(64 * 1024) } } } as const;
const ticket = ticketFor(TOKEN, { nodeId: "n", generation: 1, installationId: "i", sessionEpoch: 1 });

/** Takes connections and calls, and reads and answers nothing. */
async function deafBridge(): Promise<string> {
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer();
  server.on("session", (session) => sessions.add(session));
  server.on("stream", (stream) => stream.on("error", () => undefined));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  const address = server.address();
  return `grpc://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
}

describe.each(["stream", "unary"] as const)("a bridge that takes nothing, by %s,", (mode) => {
  it("costs a bounded buffer, then the session", async () => {
    const { promise, resolve } = Promise.withResolvers<TransportEnd>();
    const way = new BridgeWay({ url: await deafBridge(), mode });
    const transport = way.open(ticket, { onMessage: () => undefined, onEnd: resolve });
    const frames = Math.ceil((4 * DEFAULTS.bridge.bufferBytes) / FRAME.body.value.body.length);
    for (let sent = 0; sent < frames; sent += 1) transport.send(FRAME);
    expect(await promise).toEqual({ reason: "the bridge takes nothing", reconnectAfterMs: null });
    transport.send(FRAME);
    await transport.close();
  });
});
