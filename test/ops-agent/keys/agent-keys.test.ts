import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  CommandType,
  type EnrollRequest,
  FailureKind,
  type InjectKeysPayload,
} from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { TestHost } from "../support/agent-process.ts";
import { sendConfigure } from "../support/commands.ts";
import { ControlPeer } from "../support/control-peer.ts";
import { sealedKeys } from "./sealed-keys.ts";

let peer: ControlPeer;
let host: TestHost;

beforeEach(async () => {
  peer = await ControlPeer.start();
  host = new TestHost(peer.url);
  host.start();
  await peer.session();
});
afterEach(async () => {
  await host.destroy();
  await peer.close();
});

function enrolled(): EnrollRequest {
  const [request] = peer.state.enrolled.values();
  if (request === undefined) throw new Error("nobody has enrolled");
  return request;
}

/** Sealed to the agent that has enrolled, unless the test says to whom. */
function sealed(text: string, installationId = enrolled().installationId): Promise<InjectKeysPayload> {
  const { nodeId, sealingKey } = enrolled();
  return sealedKeys([{ name: "node_key", text }], { nodeId, installationId }, sealingKey);
}

function send(id: string, value: InjectKeysPayload): void {
  peer.sendCommand({
    id,
    type: CommandType.INJECT_KEYS,
    remainingTtlMs: 60_000n,
    payload: { case: "injectKeys", value },
  });
}

const keyFile = () => join(host.dataDir, "keys/node_key");

describe("an agent's keys", () => {
  it("are opened with the sealing key that it enrolled, and written into the node's data directory", async () => {
    send("inject", await sealed("secret text"));
    expect(await peer.ended("inject")).toBe("completed");
    expect(readFileSync(keyFile(), "utf8")).toBe("secret text");
    expect(statSync(keyFile()).mode & 0o777).toBe(0o600);
    expect(peer.all("commandCompleted").at(-1)?.metadata).toEqual({ keys: "node_key" });
  });

  it("stay where they are when the node is configured again", async () => {
    send("inject", await sealed("secret text"));
    const steps = [{ name: "write", type: "write_file", path: "keys/README", content: "beside" }];
    sendConfigure(peer, "configure", "http://127.0.0.1:1", steps);
    await peer.ended("configure");
    expect(existsSync(join(host.dataDir, "keys/README"))).toBe(true);
    expect(readFileSync(keyFile(), "utf8")).toBe("secret text");
  });

  it("are refused when they are sealed to another installation, and the log has nothing of them", async () => {
    send("foreign", await sealed("secret text", "11111111-1111-4111-8111-111111111111"));
    expect(await peer.ended("foreign")).toBe(`${FailureKind.FAILED} key_unreadable`);
    expect(existsSync(keyFile())).toBe(false);
    send("own", await sealed("secret text"));
    expect(await peer.ended("own")).toBe("completed");
    expect(host.output).not.toContain("secret text");
  });
});
