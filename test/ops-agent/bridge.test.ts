import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CommandType, FailureKind } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { TestHost } from "./support/agent-process.ts";
import { BridgePeer } from "./support/bridge-peer.ts";
import { lastingSteps, sendCommand, sendConfigure } from "./support/commands.ts";
import { ControlPeer } from "./support/control-peer.ts";

let peer: ControlPeer;
let bridge: BridgePeer;
let host: TestHost;

beforeEach(async () => {
  peer = await ControlPeer.start();
  bridge = await BridgePeer.start(peer);
});
afterEach(async () => {
  await host.destroy();
  bridge.kill();
  await peer.close();
  expect(peer.state.offences).toEqual([]);
});

async function started(mode: string, returnMs = 600_000): Promise<void> {
  const timing = { reconnect_max_ms: 300, probe_ms: 100, return_ms: returnMs };
  host = new TestHost(peer.url, { bridge: { url: bridge.url, mode }, timing });
  host.start();
  await peer.session();
}

/** STOP of a node that was never configured succeeds and does nothing. */
async function stopEnds(id: string): Promise<void> {
  sendCommand(peer, { id, type: CommandType.STOP });
  expect(await peer.ended(id)).toBe("completed");
}

describe.each(["stream", "unary"])("a session through a bridge by %s", (mode) => {
  it("enrols, beats, takes commands and shows its ticket with every call", async () => {
    peer.beatIntervalMs = 200;
    await started(mode);
    await stopEnds("stop");
    await peer.until("pings", () => peer.pings >= 3);
    expect(peer.enrolments).toBe(1);
    expect(new Set(peer.ways)).toEqual(new Set(["bridge"]));
    for (const metadata of bridge.metadata) {
      expect(metadata.get("orrery-installation")).toEqual([...peer.state.enrolled.keys()]);
      expect(metadata.get("orrery-epoch")).toEqual(["1"]);
      expect(String(metadata.get("orrery-ticket")[0])).toMatch(/^[0-9a-f]{64}$/);
    }
  });

  it("is held anew when the bridge falls silent", async () => {
    peer.beatIntervalMs = 200;
    await started(mode);
    peer.isSilent = true;
    await peer.session(1);
    expect(peer.all("hello").map(({ sessionEpoch }) => sessionEpoch)).toEqual([1n, 2n]);
  });

  it("keeps the order of a hundred commands", async () => {
    await started(mode);
    const ids = Array.from({ length: 100 }, (_, index) => `c${index}`);
    for (const id of ids) sendCommand(peer, { id, type: CommandType.START });
    await peer.ended("c99");
    expect(peer.all("commandFailed").map(({ commandId }) => commandId)).toEqual(ids);
  });

  it("gives way to the direct one when the bridge is gone, and is held by the bridge again later", async () => {
    await started(mode, 1_000);
    bridge.kill();
    await peer.until("a direct session", () => peer.ways.at(-1) === "direct" && peer.all("opening").length === 2);
    await stopEnds("direct");
    await bridge.listen();
    await peer.until("a session by the bridge", () => peer.ways.at(-1) === "bridge" && peer.all("opening").length >= 3);
    await stopEnds("returned");
  });

  it("gives way to the direct one when the bridge refuses every call", async () => {
    bridge.isRefusing = true;
    await started(mode);
    expect(peer.ways).toEqual(["direct"]);
    expect(host.output).toContain('"way":"bridge"');
  });

  it("tells what became of a command that SIGTERM cut off before the agent ends", async () => {
    await started(mode);
    sendConfigure(peer, "cut off", "http://127.0.0.1:1", lastingSteps(300));
    await peer.until("the second step", () => peer.all("commandProgress").some(({ stepIndex }) => stepIndex === 1));
    expect(await host.kill("SIGTERM")).toBe(0);
    expect(await peer.ended("cut off")).toBe(`${FailureKind.INTERRUPTED} command_interrupted`);
  });
});

describe("a session by unary calls", () => {
  it("brings an idle agent a command at once, and beats by Heartbeat", async () => {
    await started("unary");
    const reports = bridge.calls.Report;
    await peer.until("the call that waits", () => bridge.calls.Heartbeat >= 2);
    expect(bridge.calls.Report).toBe(reports);
    const since = performance.now();
    await stopEnds("idle");
    expect(performance.now() - since).toBeLessThan(3_000);
  });

  it("loses and repeats nothing when answers are lost", async () => {
    await started("unary");
    bridge.lostAnswers = 3;
    await stopEnds("first");
    bridge.lostAnswers = 2;
    await stopEnds("second");
    expect(peer.all("commandCompleted").map(({ commandId }) => commandId)).toEqual(["first", "second"]);
    expect(peer.all("opening")).toHaveLength(1);
  });

  it("is held anew when the bridge no longer knows it", async () => {
    await started("unary");
    bridge.kill();
    await bridge.listen();
    await peer.session(1);
  });
});

describe("a bridge that drains", () => {
  it("is obeyed about when to come back, up to the agent's own maximum", async () => {
    await started("stream");
    const since = performance.now();
    bridge.drain(3_600_000);
    await peer.session(1);
    expect(performance.now() - since).toBeLessThan(10_000);
    expect(peer.ways).toEqual(["bridge", "bridge"]);
    expect(host.output).toContain("UNAVAILABLE: draining");
  });
});
