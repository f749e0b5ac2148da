import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CommandType, FailureKind } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { TestHost } from "./support/agent-process.ts";
import { lastingSteps, sendCommand, sendConfigure } from "./support/commands.ts";
import { ControlPeer } from "./support/control-peer.ts";

const NO_ARTIFACTS = "http://127.0.0.1:1";

let peer: ControlPeer;
let host: TestHost;

beforeEach(async () => {
  peer = await ControlPeer.start();
  host = new TestHost(peer.url);
});
afterEach(async () => {
  await host.destroy();
  await peer.close();
});

async function started(): Promise<void> {
  const known = peer.all("opening").length;
  host.start();
  await peer.session(known);
}

/** A CONFIGURE that lasts, once its program runs. */
async function lastingCommand(id: string): Promise<void> {
  sendConfigure(peer, id, NO_ARTIFACTS, lastingSteps(300));
  await peer.until("the second step", () => peer.all("commandProgress").some(({ stepIndex }) => stepIndex === 1));
  await peer.until("the program's line", () => existsSync(join(host.dataDir, "runs")));
}

function runs(): number {
  return readFileSync(join(host.dataDir, "runs"), "utf8").split("\n").length - 1;
}

describe("a session", () => {
  it("beats with pings while idle and with the running command while busy", async () => {
    peer.beatIntervalMs = 200;
    await started();
    await peer.until("pings", () => peer.pings >= 3);
    expect(peer.all("beat")).toEqual([]);
    await lastingCommand("busy");
    await peer.until("full beats", () => peer.all("beat").length >= 2);
    expect(peer.all("beat").at(-1)?.runningCommandIds).toEqual(["busy"]);
  });

  it("ignores garbage, texts and messages that it does not know", async () => {
    await started();
    peer.sendRaw(Uint8Array.from([255, 255, 255, 255]));
    peer.sendRaw(new Uint8Array(0));
    peer.sendRaw("surprise");
    peer.sendRaw(Uint8Array.from([0x7a, 0x00]));
    sendCommand(peer, { id: "stop", type: CommandType.STOP });
    expect(await peer.ended("stop")).toBe("completed");
    expect(peer.connections).toBe(1);
  });

  it("is held anew after a frame that is too large", async () => {
    await started();
    peer.sendRaw(new Uint8Array(256 * 1024 + 1));
    await peer.until("another session", () => peer.all("opening").length === 2);
  });

  it("is held anew, with a higher epoch, after a cut and when the peer falls silent", async () => {
    await started();
    peer.beatIntervalMs = 200;
    peer.cut();
    await peer.until("a session after the cut", () => peer.all("opening").length >= 2);
    const sessions = peer.all("opening").length;
    peer.isSilent = true;
    await peer.until("a session after silence", () => peer.all("opening").length > sessions);
    const epochs = peer.all("hello").map(({ sessionEpoch }) => sessionEpoch);
    expect(epochs).toEqual([...epochs].sort((a, b) => Number(a - b)));
    expect(new Set(epochs).size).toBe(epochs.length);
  });

  it("waits as long as a Goodbye asks", async () => {
    await started();
    const since = performance.now();
    peer.send({ case: "goodbye", value: { code: "internal", message: "deploying", reconnectAfterMs: 700 } });
    await peer.until("another session", () => peer.all("opening").length === 2);
    expect(performance.now() - since).toBeGreaterThanOrEqual(700);
  });

  it("is never held again after a Goodbye without return: the agent ends with code 4", async () => {
    await started();
    peer.send({ case: "goodbye", value: { code: "agent_revoked", message: "no longer yours" } });
    expect(await host.exited()).toBe(4);
    expect(peer.connections).toBe(1);
  });
});

describe("an agent", () => {
  it("does not start on a state directory that another agent holds", async () => {
    await started();
    const other = new TestHost(peer.url);
    try {
      other.start("--state-dir", host.stateDir);
      expect(await other.exited()).toBe(3);
      expect(other.output).toContain("Another agent runs");
    } finally {
      await other.destroy();
    }
  });

  it("names every setting that is wrong and ends with code 2", async () => {
    host.start("--generation", "zero", "--port", "rpc=99999");
    expect(await host.exited()).toBe(2);
    expect(host.output).toMatch(/generation:.*\n.*ports\.rpc:/);
  });

  it("does not put its state where chain files may write", async () => {
    host.start("--data-dir", host.directory);
    expect(await host.exited()).toBe(2);
    expect(host.output).toContain("must not be inside data_dir");
  });

  it("ends with code 0 on SIGTERM and tells that its command was interrupted", async () => {
    await started();
    await lastingCommand("cut off");
    expect(await host.kill("SIGTERM")).toBe(0);
    expect(await peer.ended("cut off")).toBe(`${FailureKind.INTERRUPTED} command_interrupted`);
  });
});

describe("a command", () => {
  it("that the agent's death cut off is interrupted on redelivery, and its program never runs twice", async () => {
    await started();
    await lastingCommand("once");
    await host.kill("SIGKILL");
    await started();
    sendConfigure(peer, "once", NO_ARTIFACTS, lastingSteps(300));
    expect(await peer.ended("once")).toBe(`${FailureKind.INTERRUPTED} command_interrupted`);
    expect(runs()).toBe(1);
    expect(host.recipePids()).toEqual([]);
  });

  it("that runs over a reconnect is named in the opening, acknowledged again, and goes on", async () => {
    await started();
    await lastingCommand("going on");
    peer.cut();
    await peer.until("another session", () => peer.all("opening").length === 2);
    expect(peer.all("opening").at(-1)?.runningCommandIds).toEqual(["going on"]);
    const before = peer.all("commandAcknowledged").length;
    sendConfigure(peer, "going on", NO_ARTIFACTS, lastingSteps(300));
    await peer.until("another acknowledgement", () => peer.all("commandAcknowledged").length > before);
    expect(runs()).toBe(1);
  });

  it("is stopped in the middle by a cancel, with the program that it runs", async () => {
    await started();
    await lastingCommand("cancelled");
    peer.send({ case: "cancelCommand", value: { commandId: "cancelled" } });
    expect(await peer.ended("cancelled")).toBe(`${FailureKind.CANCELLED} command_cancelled`);
    expect(host.recipePids()).toEqual([]);
  });

  it("gives way to STOP", async () => {
    await started();
    await lastingCommand("pre-empted");
    sendCommand(peer, { id: "stop", type: CommandType.STOP });
    expect(await peer.ended("pre-empted")).toBe(`${FailureKind.INTERRUPTED} command_interrupted`);
    expect(await peer.ended("stop")).toBe("completed");
  });

  it("is refused when its time has passed, its type or payload is unknown, or nothing is configured", async () => {
    await started();
    sendCommand(peer, { id: "late", type: CommandType.START, ttlMs: 0 });
    sendCommand(peer, { id: "later", type: CommandType.UPGRADE });
    sendCommand(peer, { id: "empty", type: CommandType.CONFIGURE });
    sendCommand(peer, { id: "early", type: CommandType.START });
    expect(await peer.ended("late")).toBe(`${FailureKind.EXPIRED} command_expired`);
    expect(await peer.ended("later")).toBe(`${FailureKind.REFUSED} command_refused`);
    expect(await peer.ended("empty")).toBe(`${FailureKind.REFUSED} command_refused`);
    expect(await peer.ended("early")).toBe(`${FailureKind.FAILED} command_failed`);
  });

  it("that stands still is marked stalled", async () => {
    await host.destroy();
    host = new TestHost(peer.url, { timing: { reconnect_max_ms: 300, probe_ms: 100, stall_check_ms: 50 } });
    await started();
    await lastingCommand("stalled");
    await peer.until(
      "two stalled reports",
      () => peer.all("commandProgress").filter(({ stalled }) => stalled).length >= 2,
    );
  });

  it.each([
    ["../outside", "chain_invalid"],
    ["/tmp/orrery-outside", "chain_invalid"],
    ["{{ .Values.up }}/outside", "path_outside_data_dir"],
  ])("whose recipe writes to %s fails with %s and changes nothing", async (path, code) => {
    await started();
    const steps = [{ name: "leave", type: "write_file", path, content: "x" }];
    sendConfigure(peer, "leaving", NO_ARTIFACTS, steps, 60_000, { up: ".." });
    expect(await peer.ended("leaving")).toBe(`${FailureKind.FAILED} ${code}`);
    expect(existsSync(join(host.directory, "outside"))).toBe(false);
  });

  it("keeps its order among many that come at once", async () => {
    await started();
    const ids = Array.from({ length: 300 }, (_, index) => `c${index}`);
    for (const id of ids) sendCommand(peer, { id, type: CommandType.START });
    await peer.ended("c299");
    // Nothing is configured, so that each fails at once; what counts is the order.
    expect(peer.all("commandFailed").map(({ commandId }) => commandId)).toEqual(ids);
  });
});
