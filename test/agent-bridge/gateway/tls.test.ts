import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ChannelCredentials } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { type Certificates, makeCertificates } from "../../ops-agent/support/certificates.ts";
import { BridgeProcess } from "./support/bridge-process.ts";
import { connect, hello, StreamAgent } from "./support/clients.ts";
import { FakeEdge, WAIT } from "./support/fake-edge.ts";
import { fileScope } from "./support/scope.ts";

const scope = fileScope();
const directory = mkdtempSync(join(tmpdir(), "orrery-bridge-tls-"));
let edge: FakeEdge;
let ours: Certificates;
let strangers: Certificates;
const agents: StreamAgent[] = [];

beforeAll(async () => {
  ours = makeCertificates(mkdtempSync(join(directory, "ours-")));
  strangers = makeCertificates(mkdtempSync(join(directory, "strangers-")));
  edge = await FakeEdge.start();
  edge.isEchoing = true;
});
afterEach(() => {
  for (const agent of agents.splice(0)) agent.close();
});
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

function credentials(authority: Certificates, own?: Certificates): ChannelCredentials {
  const read = (file: string | undefined) => (file === undefined ? null : readFileSync(file));
  return ChannelCredentials.createSsl(read(authority.ca), read(own?.key), read(own?.cert));
}

async function isServed(url: string, by: ChannelCredentials): Promise<boolean> {
  const agent = new StreamAgent(connect(url, by));
  agents.push(agent);
  agent.send(hello());
  const served = vi.waitFor(() => expect(agent.messages).toHaveLength(1), WAIT).then(() => true);
  return Promise.race([served, agent.status.then(() => false)]);
}

describe("a bridge with a certificate", () => {
  let bridge: BridgeProcess;
  beforeAll(async () => {
    bridge = await BridgeProcess.start(
      { EDGE_URL: edge.url, TLS_CERT_FILE: ours.cert, TLS_KEY_FILE: ours.key },
      { scope },
    );
  });

  it("says that it speaks TLS, and serves agents that trust its authority", async () => {
    expect(bridge.url).toMatch(/^grpcs:/);
    expect(await isServed(bridge.url, credentials(ours))).toBe(true);
  });

  it("is not talked to by agents that trust another authority, or by those without TLS", async () => {
    expect(await isServed(bridge.url, credentials(strangers))).toBe(false);
    expect(await isServed(bridge.url, ChannelCredentials.createInsecure())).toBe(false);
    expect(await isServed(bridge.url, credentials(ours))).toBe(true);
  });
});

describe("a bridge that knows its agents' authority", () => {
  let bridge: BridgeProcess;
  beforeAll(async () => {
    const env = { TLS_CERT_FILE: ours.cert, TLS_KEY_FILE: ours.key, TLS_CLIENT_CA_FILE: ours.ca };
    bridge = await BridgeProcess.start({ EDGE_URL: edge.url, ...env }, { scope });
  });

  it("serves agents with a certificate of it", async () => {
    expect(await isServed(bridge.url, credentials(ours, ours))).toBe(true);
  });

  it("serves no agent without a certificate, or with a stranger's", async () => {
    expect(await isServed(bridge.url, credentials(ours))).toBe(false);
    expect(await isServed(bridge.url, credentials(ours, strangers))).toBe(false);
    expect(bridge.isAlive).toBe(true);
    expect(await isServed(bridge.url, credentials(ours, ours))).toBe(true);
  });
});
