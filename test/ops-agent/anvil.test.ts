import { once } from "node:events";
import { createReadStream, readFileSync, rmSync, statSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CommandType, SyncStatus } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { freePort, TestHost, TOKEN } from "./support/agent-process.ts";
import { sendCommand, sendConfigure } from "./support/commands.ts";
import { ControlPeer } from "./support/control-peer.ts";

const anvilBinary = createRequire(import.meta.url).resolve(
  `@foundry-rs/anvil-linux-${process.arch === "arm64" ? "arm64" : "amd64"}/bin/anvil`,
);

let peer: ControlPeer;
let artifacts: Server;
let host: TestHost;
let port: number;
let artifactsUrl: string;

async function blockNumber(): Promise<number> {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_blockNumber", params: [] });
  const headers = { "content-type": "application/json" };
  const response = await fetch(`http://127.0.0.1:${port}`, { method: "POST", headers, body });
  const { result } = JSON.parse(await response.text());
  return Number(result);
}

function lastStatus() {
  return peer.all("status").at(-1) ?? peer.all("opening").at(-1)?.status;
}

beforeAll(async () => {
  peer = await ControlPeer.start();
  artifacts = createServer((_request, response) => {
    response.setHeader("content-length", statSync(anvilBinary).size);
    createReadStream(anvilBinary).pipe(response);
  }).listen(0, "127.0.0.1");
  await once(artifacts, "listening");
  const address = artifacts.address();
  artifactsUrl = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
  port = await freePort();
  host = new TestHost(peer.url, { ports: { rpc: port } });
  host.start();
});

afterAll(async () => {
  await host.destroy();
  await peer.close();
  artifacts.close();
});

describe("a real anvil under a real agent", () => {
  it("is installed by its recipe, started, and reported synced with its address", async () => {
    await peer.session();
    sendConfigure(peer, "configure-1", artifactsUrl);
    expect(await peer.ended("configure-1")).toBe("completed");
    const bytes = peer.all("commandProgress").filter(({ step, total }) => step === "download anvil" && total > 0n);
    expect(bytes.length).toBeGreaterThan(0);
    sendCommand(peer, { id: "start-1", type: CommandType.START });
    expect(await peer.ended("start-1")).toBe("completed");
    await peer.until("synced", () => lastStatus()?.syncStatus === SyncStatus.SYNCED);
    expect(lastStatus()?.endpoints).toEqual({ rpc: `http://127.0.0.1:${port}` });
    expect(await blockNumber()).toBeGreaterThanOrEqual(0);
    expect(host.chainPids()).toHaveLength(1);
  });

  it("is configured and started again without a second process or download", async () => {
    const pids = host.chainPids();
    sendConfigure(peer, "configure-2", "http://127.0.0.1:1");
    expect(await peer.ended("configure-2")).toBe("completed");
    sendCommand(peer, { id: "start-2", type: CommandType.START });
    expect(await peer.ended("start-2")).toBe("completed");
    expect(host.chainPids()).toEqual(pids);
  });

  it.each(["SIGKILL", "SIGTERM"] as const)(
    "outlives an agent ended by %s and is adopted by the next",
    async (signal) => {
      const pids = host.chainPids();
      const sessions = peer.all("opening").length;
      await host.kill(signal);
      expect(host.chainPids()).toEqual(pids);
      host.start();
      await peer.session(sessions);
      const [before, after] = peer.all("hello").slice(-2);
      expect(after?.installationId).toBe(before?.installationId);
      expect(after?.sessionEpoch).toBeGreaterThan(before?.sessionEpoch ?? 0n);
      expect(peer.all("opening").at(-1)?.status?.syncStatus).toBe(SyncStatus.SYNCED);
      sendCommand(peer, { id: `start-after-${signal}`, type: CommandType.START });
      expect(await peer.ended(`start-after-${signal}`)).toBe("completed");
      await peer.until("synced", () => lastStatus()?.syncStatus === SyncStatus.SYNCED);
      expect(host.chainPids()).toEqual(pids);
    },
  );

  it("is found by its mark when the pid note is lost", async () => {
    const pids = host.chainPids();
    await host.kill("SIGKILL");
    rmSync(join(host.stateDir, "node.pid"));
    const sessions = peer.all("opening").length;
    host.start();
    await peer.session(sessions);
    sendCommand(peer, { id: "start-unnoted", type: CommandType.START });
    expect(await peer.ended("start-unnoted")).toBe("completed");
    expect(host.chainPids()).toEqual(pids);
  });

  it("keeps its chain over a restart, in another process", async () => {
    const before = await blockNumber();
    const pids = host.chainPids();
    sendCommand(peer, { id: "restart-1", type: CommandType.RESTART });
    expect(await peer.ended("restart-1")).toBe("completed");
    expect(host.chainPids()).toHaveLength(1);
    expect(host.chainPids()).not.toEqual(pids);
    await peer.until("synced", () => lastStatus()?.syncStatus === SyncStatus.SYNCED);
    expect(await blockNumber()).toBeGreaterThanOrEqual(before);
  });

  it("is started again after its whole host went down", async () => {
    const pids = host.chainPids();
    await host.kill("SIGKILL");
    for (const pid of pids) process.kill(pid, "SIGKILL");
    const sessions = peer.all("opening").length;
    host.start();
    await peer.session(sessions);
    await peer.until("synced", () => host.chainPids().length === 1 && lastStatus()?.syncStatus === SyncStatus.SYNCED);
    expect(host.chainPids()).not.toEqual(pids);
    expect(await blockNumber()).toBeGreaterThanOrEqual(0);
  });

  it("is stopped whole, is unknown then, and stopping again is a success", async () => {
    sendCommand(peer, { id: "stop-1", type: CommandType.STOP });
    expect(await peer.ended("stop-1")).toBe("completed");
    expect(host.chainPids()).toEqual([]);
    await peer.until("unknown", () => lastStatus()?.syncStatus === SyncStatus.UNKNOWN);
    sendCommand(peer, { id: "stop-2", type: CommandType.STOP });
    expect(await peer.ended("stop-2")).toBe("completed");
  });

  it("stays stopped when its agent starts again", async () => {
    const sessions = peer.all("opening").length;
    await host.kill("SIGKILL");
    host.start();
    await peer.session(sessions);
    expect(host.chainPids()).toEqual([]);
  });

  it("leaves no secret in the agent's log or state", () => {
    expect(host.output).toContain("command ended");
    expect(host.output).not.toContain(TOKEN);
    for (const file of ["commands.jsonl", "installed.json", "node.log"]) {
      const text = readFileSync(join(host.stateDir, file), "utf8");
      expect(text).not.toContain(TOKEN);
      expect(text).not.toMatch(/private key/i);
    }
  });
});
