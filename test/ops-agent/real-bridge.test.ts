import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CommandType } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { TestHost } from "./support/agent-process.ts";
import { BridgeProcess } from "./support/bridge-process.ts";
import { lastingSteps, sendCommand, sendConfigure } from "./support/commands.ts";
import { ControlPeer } from "./support/control-peer.ts";

let peer: ControlPeer;
let bridge: BridgeProcess;
let host: TestHost;

beforeEach(async () => {
  peer = await ControlPeer.start();
  bridge = await BridgeProcess.start(peer.url);
});
afterEach(async () => {
  await host.destroy();
  await bridge.kill("SIGKILL");
  await peer.close();
  expect(peer.state.offences).toEqual([]);
  expect(peer.all("tampering")).toEqual([]);
});

async function started(mode: string): Promise<void> {
  const timing = { reconnect_max_ms: 300, probe_ms: 100, return_ms: 1_000 };
  host = new TestHost(peer.url, { bridge: { url: bridge.url, mode }, timing });
  host.start();
  await peer.until("the first beat", () => peer.pings > 0);
}

/** The way of each session that was established, as the agent's log names it. */
function ways(): string[] {
  const lines = host.output.split("\n").filter((line) => line.includes('"session established"'));
  return lines.map((line) => /"way":"(\w+)"/.exec(line)?.[1] ?? "");
}

describe.each(["stream", "unary"])("an agent and the real bridge, by %s", (mode) => {
  it("hold a session, with commands and beats both idle and busy", async () => {
    peer.beatIntervalMs = 200;
    await started(mode);
    await peer.until("pings", () => peer.pings >= 2);
    sendConfigure(peer, "busy", "http://127.0.0.1:1", lastingSteps(300));
    await peer.until("full beats", () => peer.all("beat").length >= 2);
    sendCommand(peer, { id: "stop", type: CommandType.STOP });
    expect(await peer.ended("stop")).toBe("completed");
    expect(ways()).toEqual(["bridge"]);
    expect(peer.connections).toBe(1);
  });

  it("meet again when the edge cut the connection", async () => {
    await started(mode);
    peer.cut();
    await peer.session(1);
    sendCommand(peer, { id: "stop", type: CommandType.STOP });
    expect(await peer.ended("stop")).toBe("completed");
    await peer.until("the second session's line", () => ways().length === 2);
    expect(ways()).toEqual(["bridge", "bridge"]);
  });

  it.each(["SIGKILL", "SIGTERM"] as const)(
    "part when the bridge gets %s, and meet again when it is back",
    async (signal) => {
      await started(mode);
      await bridge.kill(signal);
      await peer.session(1);
      sendCommand(peer, { id: "direct", type: CommandType.STOP });
      expect(await peer.ended("direct")).toBe("completed");
      bridge = await BridgeProcess.start(peer.url, bridge.url);
      await peer.session(2);
      sendCommand(peer, { id: "returned", type: CommandType.STOP });
      expect(await peer.ended("returned")).toBe("completed");
      expect(ways()[0]).toBe("bridge");
      expect(ways()).toContain("direct");
      expect(ways().at(-1)).toBe("bridge");
    },
  );
});
