import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { create, toBinary } from "@bufbuild/protobuf";
import { expect, it, onTestFinished } from "vitest";
import { parse, stringify } from "yaml";
import { DEFAULTS } from "../../domain/defaults.ts";
import { ENDPOINT_SCHEMES, endpointsOf } from "../../domain/node/endpoints.ts";
import { createLog } from "../../ops-agent/log.ts";
import { saveInstalled } from "../../ops-agent/node/installed.ts";
import { ChainNode } from "../../ops-agent/node/node.ts";
import { Probe } from "../../ops-agent/probe/probe.ts";
import { DataDir } from "../../ops-agent/recipe/data-dir.ts";
import type { RuntimeAdapter } from "../../ops-agent/runtime/adapter.ts";
import { loadSettings } from "../../ops-agent/settings.ts";
import { AGENT_VERSION } from "../../ops-agent/version.ts";
import { OpeningSchema } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { chainFile } from "./support/agent-process.ts";
import { testDirectory } from "./support/directory.ts";

const LOG = createLog("silent", {});
const LONGEST_HOST = `${`${"h".repeat(63)}.`.repeat(3)}${"h".repeat(61)}`;
const LONGEST_SCHEME = ENDPOINT_SCHEMES.toSorted((one, other) => other.length - one.length)[0];
/** Each of these is three bytes on the wire. */
const LONGEST_KEY = "鍵".repeat(255);
const LONGEST_COMMAND_ID = "c".repeat(128);
const NAMES = Array.from({ length: 16 }, (_, index) => `p${index}`.padEnd(64, "x"));
const IDLE: RuntimeAdapter = {
  install: async () => undefined,
  start: async () => undefined,
  stop: async () => undefined,
  resume: async () => undefined,
  isRunning: async () => true,
};

/** A chain node that says at length that it has not synced. */
async function chattyNode(): Promise<number> {
  const answer = JSON.stringify({ [LONGEST_KEY]: false, height: "0xffffffffffffffff" });
  const server = createServer((_request, response) => response.end(answer));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** A runtime file with as many endpoints as one may have, of names as long as they may be, and a long way to its status. */
function largestRuntime(names: readonly string[]): string {
  const port = names[0];
  const synced = { pointer: `/${LONGEST_KEY}`, equals: true };
  return stringify({
    ...parse(chainFile("runtime.yaml")),
    process: { command: "bin/anvil" },
    ports: Object.fromEntries(["rpc", ...names].map((name) => [name, 65_535])),
    endpoints: Object.fromEntries(names.map((name) => [name, LONGEST_SCHEME])),
    node_status: { kind: "http", port, path: "/", synced, height: { pointer: "/height" } },
  });
}

/** What a host's agent says of its chain node when its session begins. */
async function openingOf(advertiseHost: string, names: readonly string[]) {
  const directory = testDirectory();
  mkdirSync(join(directory, "data/bin"), { recursive: true });
  writeFileSync(join(directory, "data/bin/anvil"), "");
  const files = {
    "profile.yaml": chainFile("profile.yaml"),
    "runtime.yaml": largestRuntime(names),
    "recipes/full.yaml": chainFile("recipes/full.yaml"),
  };
  const values = { artifacts_url: "http://127.0.0.1:1" };
  saveInstalled(directory, { chain: "anvil", nodeType: "full", contentHash: "sha256:00", files, values });
  const settings = settingsWith(directory, advertiseHost);
  const probe = new Probe({ everyMs: 60_000, onChange: () => undefined, log: LOG });
  onTestFinished(() => probe.stop());
  const node = new ChainNode({
    nodeId: settings.node_id,
    stateDir: directory,
    dataDir: await DataDir.open(join(directory, "data")),
    platform: "linux-x64",
    ports: { [names[0] ?? ""]: await chattyNode() },
    advertiseHost: settings.advertise_host,
    runtime: IDLE,
    probe,
    installationId: "i",
    sealingSecretKey: () => new Uint8Array(32),
  });
  await node.resume(AbortSignal.timeout(10_000));
  await probe.firstLook();
  const runningCommandIds = [LONGEST_COMMAND_ID];
  return create(OpeningSchema, { agentVersion: AGENT_VERSION, runningCommandIds, status: probe.status() });
}

function settingsWith(directory: string, advertiseHost: string) {
  const paths = { token_file: "token", state_dir: "state", data_dir: "data" };
  const file = { control_url: "https://orrery.example", node_id: "n", generation: 1, ...paths };
  writeFileSync(join(directory, "agent.yaml"), stringify({ ...file, advertise_host: advertiseHost }));
  return loadSettings(["--config", join(directory, "agent.yaml")]) ?? fail();
}

function fail(): never {
  throw new Error("the settings ask for help");
}

it("the largest Opening that settings and a chain allow is taken whole", async () => {
  const opening = await openingOf(LONGEST_HOST, NAMES);
  expect(opening.status?.detail).toContain(LONGEST_KEY);
  expect(opening.status?.height).toBe(2n ** 64n - 1n);
  const { endpoints = {} } = opening.status ?? {};
  expect(Object.keys(endpoints)).toHaveLength(NAMES.length);
  expect(endpointsOf(endpoints)).toEqual(endpoints);
  const bytes = toBinary(OpeningSchema, opening).byteLength;
  expect(bytes).toBeGreaterThan(DEFAULTS.agent.openingBytes * 0.7);
  expect(bytes).toBeLessThanOrEqual(DEFAULTS.agent.openingBytes);
});

it("a chain with more endpoints, or a longer host name, is refused before there is an Opening", async () => {
  await expect(openingOf(LONGEST_HOST, [...NAMES, "q"])).rejects.toThrow("endpoints");
  await expect(openingOf(`${LONGEST_HOST}h`, NAMES)).rejects.toThrow("advertise_host");
  await expect(openingOf("鍵".repeat(253), NAMES)).rejects.toThrow("advertise_host");
});
