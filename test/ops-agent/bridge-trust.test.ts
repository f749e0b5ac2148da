import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { create } from "@bufbuild/protobuf";
import { ServerCredentials } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CommandSchema, CommandType } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { TestHost } from "./support/agent-process.ts";
import { BridgePeer } from "./support/bridge-peer.ts";
import { makeCertificates } from "./support/certificates.ts";
import { sendCommand } from "./support/commands.ts";
import { ControlPeer } from "./support/control-peer.ts";
import type { ControlMessageInit, ControlSide } from "./support/control-side.ts";
import { testDirectory } from "./support/directory.ts";

const thief = randomBytes(32);
let peer: ControlPeer;
let bridge: BridgePeer;
let host: TestHost;

beforeEach(async () => {
  peer = await ControlPeer.start();
});
afterEach(async () => {
  await host.destroy();
  bridge.kill();
  await peer.close();
});

type Forgery = (message: ControlMessageInit, side: ControlSide) => readonly ControlMessageInit[];

describe.each(["stream", "unary"])("a hostile bridge, by %s,", (mode) => {
  it.each<[string, NonNullable<ControlMessageInit["body"]>["case"], Forgery]>([
    ["challenge_forged", "challenge", (_, side) => [side.signedChallenge(thief)]],
    ["goodbye_forged", "challenge", (_, side) => [side.signedGoodbye({ code: "agent_revoked" }, thief)]],
    ["frame_replayed", "sealed", (message) => [message, message]],
    ["frame_out_of_order", "challenge", (_, side) => [{ body: { case: "sealed", value: {} } }, side.signedChallenge()]],
  ])("is left at once, and %s is reported by the direct way", async (code, kind, forge) => {
    bridge = await BridgePeer.start(peer);
    peer.onFrame = (message, side) =>
      peer.ways.at(-1) === "bridge" && message.body?.case === kind ? forge(message, side) : [message];
    host = new TestHost(peer.url, { bridge: { url: bridge.url, mode } });
    host.start();
    await peer.until("a report", () => peer.all("tampering").length > 0);
    expect(peer.all("tampering")).toMatchObject([{ code, transport: "bridge" }]);
    expect(peer.ways).toEqual(["bridge", "direct"]);
  });

  it("makes up a command, which is never executed", async () => {
    bridge = await BridgePeer.start(peer);
    host = new TestHost(peer.url, { bridge: { url: bridge.url, mode } });
    host.start();
    await peer.session();
    const upgrade = create(CommandSchema, { id: "forged", type: CommandType.UPGRADE, remainingTtlMs: 60_000n });
    peer.send(peer.side.signedCommand(upgrade, thief));
    await peer.until("a report", () => peer.all("tampering").length > 0);
    expect(peer.all("tampering")).toMatchObject([{ code: "command_forged", transport: "bridge" }]);
    expect([...peer.all("commandAcknowledged"), ...peer.all("commandFailed")]).toEqual([]);
  });

  it("answers an enrolment itself, and is not believed", async () => {
    bridge = await BridgePeer.start(peer);
    peer.onEnrolment = (answer) => {
      return answer === null || peer.enrolments > 1 ? answer : { ...answer, mac: new Uint8Array(32) };
    };
    host = new TestHost(peer.url, { bridge: { url: bridge.url, mode } });
    host.start();
    await peer.until("a report", () => peer.all("tampering").length > 0);
    expect(peer.all("tampering")).toMatchObject([{ code: "enrolment_forged", transport: "bridge" }]);
    expect(peer.ways).toEqual(["direct"]);
  });
});

describe("a bridge with TLS", () => {
  it.each(["stream", "unary"])("is spoken to by %s with the agent's own certificate", async (mode) => {
    const { ca, cert, key } = makeCertificates(testDirectory());
    const pair = { cert_chain: readFileSync(cert), private_key: readFileSync(key) };
    bridge = await BridgePeer.start(peer, ServerCredentials.createSsl(readFileSync(ca), [pair], true));
    const url = bridge.url.replace("grpc:", "grpcs:");
    host = new TestHost(peer.url, { bridge: { url, mode, ca_file: ca, cert_file: cert, key_file: key } });
    host.start();
    await peer.session();
    sendCommand(peer, { id: "stop", type: CommandType.STOP });
    expect(await peer.ended("stop")).toBe("completed");
    expect(peer.ways).toEqual(["bridge"]);
  });

  it("whose certificate another authority signed is not spoken to", async () => {
    const { cert, key } = makeCertificates(testDirectory());
    const pair = { cert_chain: readFileSync(cert), private_key: readFileSync(key) };
    bridge = await BridgePeer.start(peer, ServerCredentials.createSsl(null, [pair]));
    const url = bridge.url.replace("grpc:", "grpcs:");
    host = new TestHost(peer.url, { bridge: { url, ca_file: makeCertificates(testDirectory()).ca } });
    host.start();
    await peer.session();
    expect(peer.ways).toEqual(["direct"]);
    expect(host.output).toContain("UNAVAILABLE");
  });

  it("does not keep an agent from the direct way whose certificate files are missing", async () => {
    bridge = await BridgePeer.start(peer);
    host = new TestHost(peer.url, { bridge: { url: "grpcs://127.0.0.1:1", ca_file: "nowhere.pem" } });
    host.start();
    await peer.session();
    expect(peer.ways).toEqual(["direct"]);
  });
});
