import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { EnrollRequestSchema } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { makeCertificates } from "../../ops-agent/support/certificates.ts";
import { testDirectory } from "../../ops-agent/support/directory.ts";
import { codeIn, enrol, failureOf, hello, StreamAgent } from "./support/clients.ts";
import { FakeEdge, problem, WAIT } from "./support/fake-edge.ts";
import { expectHonestSession } from "./support/honest.ts";
import { TestBridge } from "./support/test-bridge.ts";
import {
  beginCall,
  callHeaders,
  frame,
  grpcMessage,
  headerBlock,
  type Method,
  TICKET_HEADERS,
  Wire,
} from "./support/wire.ts";

const LIMITS = { openMs: 300, connectionIdleMs: 600, keepaliveMs: 500, awaitedCalls: 8, enrolments: 4 };

let edge: FakeEdge;
let bridge: TestBridge;

beforeEach(async () => {
  edge = await FakeEdge.start();
  edge.isEchoing = true;
  bridge = await TestBridge.start(edge.url, { limits: LIMITS });
});
afterEach(async () => {
  await expectHonestSession(bridge);
  await bridge[Symbol.asyncDispose]();
  await edge[Symbol.asyncDispose]();
});

interface RawCall {
  readonly stream: ClientHttp2Stream;
  /** grpc-status and orrery-code, as soon as they have come. */
  readonly end: Promise<readonly [number, string | undefined]>;
}

async function connection(): Promise<ClientHttp2Session> {
  const session = connect(`http://127.0.0.1:${bridge.port}`);
  session.on("error", () => undefined);
  await once(session, "connect");
  onTestFinished(() => session.destroy());
  return session;
}

/** A call by bare HTTP/2: what is written is what a test says. */
function call(session: ClientHttp2Session, method: Method, extra: Readonly<Record<string, string>> = {}): RawCall {
  const stream = session.request({ ...callHeaders(method), ...extra });
  stream.on("error", () => undefined);
  stream.resume();
  const { promise, resolve } = Promise.withResolvers<readonly [number, string | undefined]>();
  const look = (headers: Readonly<Record<string, unknown>>) => {
    const code = headers["orrery-code"];
    if (headers["grpc-status"] === undefined) return;
    resolve([Number(headers["grpc-status"]), typeof code === "string" ? code : undefined]);
  };
  stream.on("response", look);
  stream.on("trailers", look);
  return { stream, end: promise };
}

async function endOf(method: Method, body: Uint8Array, extra: Readonly<Record<string, string>> = {}) {
  const { stream, end } = call(await connection(), method, extra);
  stream.end(body);
  return end;
}

describe("a call that lies about its message", () => {
  it.each(["Enroll", "Heartbeat", "Report"] as const)(
    "by a length beyond all limits is refused at once: %s",
    async (method) => {
      const lie = grpcMessage(new Uint8Array(10), { length: 2 ** 32 - 1 });
      expect(await endOf(method, lie)).toEqual([status.RESOURCE_EXHAUSTED, undefined]);
    },
  );

  it("by a length beyond all limits is refused at once: Session", async () => {
    const lie = grpcMessage(new Uint8Array(10), { length: 2 ** 32 - 1 });
    expect(await endOf("Session", lie, TICKET_HEADERS)).toEqual([status.RESOURCE_EXHAUSTED, undefined]);
  });

  it.each(["gzip", "deflate", "made-up"])("by compression is refused, and not unpacked: %s", async (encoding) => {
    const zipped = grpcMessage(gzipSync(new Uint8Array(250 * 1024)), { compressed: 1 });
    // gRPC takes a piece apart into all its messages before it looks at the first.
    const piece = Buffer.concat(Array.from({ length: 50 }, () => zipped));
    const before = process.memoryUsage().rss;
    for (let count = 0; count < 10; count += 1) {
      expect(await endOf("Report", piece, { "grpc-encoding": encoding })).toEqual([status.UNIMPLEMENTED, undefined]);
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(40 * 2 ** 20);
  });

  it("that is said to be compressed without saying how is no message", async () => {
    const zipped = grpcMessage(gzipSync(new Uint8Array(1_000)), { compressed: 1 });
    expect(await endOf("Report", zipped)).toEqual([status.INTERNAL, undefined]);
  });

  it("is refused when the bytes are no message", async () => {
    expect(await endOf("Enroll", grpcMessage(new Uint8Array(50).fill(0xff)))).toEqual([status.INTERNAL, undefined]);
  });
});

describe("a unary call whose message does not come", () => {
  it("ends in time, and by name", async () => {
    const session = await connection();
    const { stream, end } = call(session, "Report", TICKET_HEADERS);
    stream.write(grpcMessage(new Uint8Array(1_000), { length: 200_000 }));
    expect(await end).toEqual([status.DEADLINE_EXCEEDED, "malformed_frame"]);
    expect(await bridge.metric('orrery_bridge_refusals_total{code="malformed_frame"}')).toBe(1);
  });

  it("makes room for others when there are too many, the oldest first", async () => {
    const session = await connection();
    const half = grpcMessage(new Uint8Array(100), { length: 200_000 });
    const calls = Array.from({ length: LIMITS.awaitedCalls + 1 }, () => call(session, "Heartbeat", TICKET_HEADERS));
    for (const { stream } of calls) stream.write(half);
    const ends = await Promise.all(calls.map(({ end }) => end));
    expect(ends[0]).toEqual([status.RESOURCE_EXHAUSTED, "bridge_overloaded"]);
    expect(new Set(ends.slice(1).map(([code]) => code))).toEqual(new Set([status.DEADLINE_EXCEEDED]));
  });
});

describe("a stream that begins and does not go on", () => {
  it("ends in time, and its WebSocket with it", async () => {
    const agent = StreamAgent.open(bridge.url);
    const end = await agent.status;
    agent.close();
    expect([end.code, codeIn(end)]).toEqual([status.DEADLINE_EXCEEDED, "malformed_frame"]);
    await (await edge.session()).ended;
  });

  it("ends in time after half a Hello too", async () => {
    const { stream, end } = call(await connection(), "Session", TICKET_HEADERS);
    stream.write(grpcMessage(new Uint8Array(100), { length: 1_000 }));
    expect(await end).toEqual([status.DEADLINE_EXCEEDED, "malformed_frame"]);
  });
});

describe("a connection that brings no session which the edge takes", () => {
  it("is closed when it says nothing", async () => {
    const wire = await Wire.open(bridge.port);
    await wire.closed;
  });

  it("is closed when its TLS handshake does not go on", async () => {
    const { cert: TLS_CERT_FILE, key: TLS_KEY_FILE } = makeCertificates(testDirectory());
    await using secure = await TestBridge.start(edge.url, {
      limits: LIMITS,
      environment: { TLS_CERT_FILE, TLS_KEY_FILE },
    });
    const wire = await Wire.open(secure.port);
    wire.write(Buffer.from([0x16, 3, 1]));
    await wire.closed;
  });

  it("is closed when it greets and calls nothing", async () => {
    const session = await connection();
    await once(session, "close");
  });

  it("is closed when its headers trickle", async () => {
    const wire = await Wire.greeted(bridge.port);
    const block = headerBlock(callHeaders("Session", TICKET_HEADERS));
    wire.write(frame("headers", 0, 1, block.subarray(0, 20)));
    let sent = 20;
    const trickle = setInterval(() => {
      wire.write(frame("continuation", 0, 1, block.subarray(sent, sent + 1)));
      sent += 1;
    }, 50);
    await wire.closed;
    clearInterval(trickle);
  });

  it("is closed when its calls are refused and it keeps them open", async () => {
    edge.refusal = { status: 401, body: problem("agent_unauthenticated") };
    const session = await connection();
    const { end } = call(session, "Session", TICKET_HEADERS);
    expect(await end).toEqual([status.UNAUTHENTICATED, "agent_unauthenticated"]);
    call(session, "Session");
    await once(session, "close");
    edge.refusal = null;
  });

  it("is closed when its peer answers no ping", async () => {
    const wire = await Wire.greeted(bridge.port);
    wire.write(beginCall(1, "Session", TICKET_HEADERS));
    wire.write(frame("data", 0, 1, grpcMessage(new Uint8Array([10, 1, 7]))));
    await (await edge.session()).ended;
    await wire.closed;
  });

  it("stays when it does, for as long as it does", async () => {
    const agent = StreamAgent.open(bridge.url);
    agent.send(hello());
    await vi.waitFor(() => expect(agent.messages).toHaveLength(1), WAIT);
    // Another connection without a session comes later and is closed meanwhile.
    const idle = await connection();
    await once(idle, "close");
    agent.send(hello());
    await vi.waitFor(() => expect(agent.messages).toHaveLength(2), WAIT);
    agent.close();
  });
});

describe("one connection", () => {
  it("that makes more calls at once than it may is closed", async () => {
    const session = await connection();
    await once(session, "remoteSettings");
    const most = session.remoteSettings.maxConcurrentStreams ?? Number.POSITIVE_INFINITY;
    expect(most).toBeLessThanOrEqual(32);
    const wire = await Wire.greeted(bridge.port);
    const begin = (index: number) => wire.write(beginCall(2 * index + 1, "Session", TICKET_HEADERS));
    for (let index = 0; index < most; index += 1) begin(index);
    await vi.waitFor(() => expect(edge.sessions).toHaveLength(most), WAIT);
    begin(most);
    await wire.closed;
    await vi.waitFor(() => expect(bridge.bridge.sessions.size).toBe(0), WAIT);
    expect(edge.sessions).toHaveLength(most);
  });

  it("that begins and cancels calls without end is closed", async () => {
    const wire = await Wire.greeted(bridge.port);
    const cancel = Buffer.from([0, 0, 0, 8]);
    for (let id = 1; id < 20_000 && !wire.isClosed; id += 2) {
      wire.write(beginCall(id, "Session", TICKET_HEADERS), frame("reset", 0, id, cancel));
      if (id % 200 === 1) await new Promise((resolve) => setImmediate(resolve));
    }
    await wire.closed;
    await vi.waitFor(() => expect(bridge.bridge.sessions.size).toBe(0), WAIT);
  });

  it("that floods pings or settings which it never reads is closed", async () => {
    for (const flood of [frame("ping", 0, 0, Buffer.alloc(8)), frame("settings", 0, 0)]) {
      const wire = await Wire.greeted(bridge.port);
      wire.socket.pause();
      const many = Buffer.concat(Array.from({ length: 5_000 }, () => flood));
      for (let round = 0; round < 20 && !wire.isClosed; round += 1) wire.write(many);
      wire.socket.resume();
      await wire.closed;
    }
  });
});

describe("enrolments", () => {
  const request = create(EnrollRequestSchema, { nodeId: "node-1", generation: 1, installationId: "i" });

  it("are refused beyond what may be under way at once", async () => {
    edge.isAnswering = false;
    const asked = Array.from({ length: LIMITS.enrolments + 1 }, () => failureOf(enrol(bridge.url, request)));
    const codes = (await Promise.all(asked)).map(codeIn);
    expect(codes.filter((code) => code === "bridge_overloaded")).toHaveLength(1);
    expect(codes.filter((code) => code === "edge_unreachable")).toHaveLength(LIMITS.enrolments);
    edge.isAnswering = true;
  });

  it("that are larger than any are not passed on", async () => {
    const large = create(EnrollRequestSchema, { ...request, signingKey: new Uint8Array(5_000) });
    expect(toBinary(EnrollRequestSchema, large).byteLength).toBeGreaterThan(4_096);
    const refusal = await failureOf(enrol(bridge.url, large));
    expect([refusal.code, codeIn(refusal)]).toEqual([status.INVALID_ARGUMENT, "body_too_large"]);
    expect(edge.enrolments).toEqual([]);
  });
});
