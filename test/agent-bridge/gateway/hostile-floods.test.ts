import { once } from "node:events";
import { type ClientHttp2Session, connect } from "node:http2";
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { BridgeProcess } from "./support/bridge-process.ts";
import { codeIn, hello, StreamAgent } from "./support/clients.ts";
import { eventually } from "./support/eventually.ts";
import { FakeEdge, problem, WAIT } from "./support/fake-edge.ts";
import { flood } from "./support/flood.ts";
import { expectHonestSession } from "./support/honest.ts";
import { callHeaders, grpcMessage, TICKET_HEADERS, Wire } from "./support/wire.ts";

let edge: FakeEdge;

beforeEach(async () => {
  edge = await FakeEdge.start();
  edge.isEchoing = true;
});
afterEach(() => edge.stop());

async function started(env: Readonly<Record<string, string>> = {}): Promise<BridgeProcess> {
  const bridge = await BridgeProcess.start({ EDGE_URL: edge.url, ...env });
  // What the first session takes once is no growth.
  await expectHonestSession(bridge);
  return bridge;
}

it("a thousand connections without enrolment cost little, and an agent has its session amid them", async () => {
  const bridge = await started();
  const { beforeMiB, duringMiB, afterMiB, connections } = await flood(bridge, 1_000, async (wires) => {
    for (const wire of wires) wire.destroy();
  });
  expect(((duringMiB - beforeMiB) * 1024) / connections).toBeLessThan(100);
  expect(afterMiB - beforeMiB).toBeLessThan(100);
  await expectHonestSession(bridge);
});

it("connections beyond the most are turned away at the door, and there is room again when others have gone", async () => {
  const bridge = await started({ CONNECTIONS_MAX: "5" });
  const port = Number(new URL(bridge.url).port);
  await eventually("an empty house", async () => (await bridge.metric("orrery_bridge_connections")) === 0);
  const guests = await Promise.all(Array.from({ length: 5 }, () => Wire.greeted(port)));
  await eventually("a full house", async () => (await bridge.metric("orrery_bridge_connections")) === 5);
  const late = await Wire.open(port);
  await late.closed;
  expect(await bridge.metric('orrery_bridge_refusals_total{code="bridge_overloaded"}')).toBeGreaterThan(0);
  for (const guest of guests) guest.destroy();
  await eventually("an empty house again", async () => (await bridge.metric("orrery_bridge_connections")) === 0);
  await expectHonestSession(bridge);
});

it("hundreds of half messages hold no more than a bounded number of them would", async () => {
  const bridge = await started();
  const beforeMiB = bridge.residentMiB;
  const sessions = await Promise.all(Array.from({ length: 25 }, () => connection(bridge)));
  const half = grpcMessage(new Uint8Array(200_000), { length: 250_000 });
  for (const session of sessions) {
    for (let index = 0; index < 30; index += 1) {
      const stream = session.request({ ...callHeaders("Report"), ...TICKET_HEADERS });
      stream.on("error", () => undefined);
      stream.resume();
      stream.write(half);
    }
  }
  const turnedAway = 'orrery_bridge_refusals_total{code="bridge_overloaded"}';
  await eventually("the oldest to make room", async () => (await bridge.metric(turnedAway)) >= 25 * 30 - 256);
  await expectHonestSession(bridge);
  // 256 of them are 49 MiB; the rest is what the runtime has not collected yet.
  expect(bridge.residentMiB - beforeMiB).toBeLessThan(200);
});

it("thousands of refused sessions leave nothing behind", async () => {
  const bridge = await started();
  edge.refusal = { status: 401, body: problem("agent_unauthenticated") };
  const knock = async () => {
    const agent = StreamAgent.open(bridge.url);
    agent.send(hello());
    const end = await agent.status;
    agent.close();
    return codeIn(end);
  };
  const round = () => Promise.all(Array.from({ length: 50 }, knock));
  for (let rounds = 0; rounds < 4; rounds += 1) await round();
  const beforeMiB = bridge.residentMiB;
  for (let rounds = 0; rounds < 16; rounds += 1)
    expect(new Set(await round())).toEqual(new Set(["agent_unauthenticated"]));
  expect(bridge.residentMiB - beforeMiB).toBeLessThan(60);
  await vi.waitFor(async () => expect(await bridge.metric('orrery_bridge_sessions{mode="stream"}')).toBe(0), WAIT);
  edge.refusal = null;
  await expectHonestSession(bridge);
});

async function connection(bridge: BridgeProcess): Promise<ClientHttp2Session> {
  const session = connect(bridge.url.replace("grpc:", "http:"));
  session.on("error", () => undefined);
  await once(session, "connect");
  onTestFinished(() => session.destroy());
  return session;
}
