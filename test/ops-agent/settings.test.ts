import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { OrreryError } from "../../domain/errors.ts";
import { loadSettings } from "../../ops-agent/settings.ts";
import { testDirectory } from "./support/directory.ts";

const COMPLETE = `
control_url: https://orrery.example
node_id: n-1
generation: 2
token_file: token
state_dir: state
data_dir: /srv/data
ports: { rpc: 8545 }
`;

function configFile(text: string): string {
  const path = join(testDirectory(), "agent.yaml");
  writeFileSync(path, text);
  return path;
}

function problems(argv: readonly string[]): string {
  try {
    loadSettings(argv);
    return "";
  } catch (error) {
    if (error instanceof OrreryError && error.code === "configuration_invalid") return error.message;
    throw error;
  }
}

describe("the agent's settings", () => {
  it("come from the file, whose relative paths are its own, with the defaults of the fleet", () => {
    const path = configFile(COMPLETE);
    expect(loadSettings(["--config", path])).toMatchObject({
      control_url: "https://orrery.example",
      token_file: join(path, "../token"),
      data_dir: "/srv/data",
      runtime: "process",
      advertise_host: "127.0.0.1",
      timing: { reconnect_max_ms: 30_000, stall_check_ms: 30_000 },
    });
  });

  it("are overridden by flags", () => {
    const flags = [
      "--generation",
      "3",
      "--port",
      "rpc=9000",
      "--port",
      "p2p=9001",
      "--runtime",
      "systemd",
      "--data-dir",
      "/other",
    ];
    expect(loadSettings(["--config", configFile(COMPLETE), ...flags])).toMatchObject({
      generation: 3,
      ports: { rpc: 9000, p2p: 9001 },
      runtime: "systemd",
      data_dir: "/other",
    });
  });

  it("name the bridge, whose files are the configuration's too, and the pinned control keys", () => {
    const keys = `control_keys: [{ key_id: control-1, public_key: ${"ab".repeat(32)} }]\n`;
    const bridge = "bridge: { url: grpcs://bridge.example:443, ca_file: ca.pem, cert_file: a.pem, key_file: /k.pem }\n";
    const path = configFile(COMPLETE + keys + bridge);
    expect(loadSettings(["--config", path])).toMatchObject({
      bridge: {
        url: "grpcs://bridge.example:443",
        mode: "stream",
        ca_file: join(path, "../ca.pem"),
        cert_file: join(path, "../a.pem"),
        key_file: "/k.pem",
      },
      control_keys: [{ key_id: "control-1", public_key: "ab".repeat(32) }],
      timing: { return_ms: 600_000 },
    });
  });

  it.each([
    ["bridge: { url: http://bridge.example }", "bridge.url"],
    ["bridge: { url: grpc://b, mode: pigeon }", "bridge.mode"],
    ["bridge: { url: grpcs://b, cert_file: a.pem }", "cert_file and key_file go together"],
    ["control_keys: [{ key_id: a, public_key: abcd }]", "control_keys.0.public_key"],
  ])("refuse %s", (line, problem) => {
    expect(problems(["--config", configFile(`${COMPLETE}${line}\n`)])).toContain(problem);
  });

  it.each(["node.example.com", "my_host", "10.0.0.7", "[2001:db8::1]", "h".repeat(253)])(
    "take %s as the host",
    (host) => {
      const text = `${COMPLETE}advertise_host: "${host}"\n`;
      expect(loadSettings(["--config", configFile(text)])).toMatchObject({ advertise_host: host });
      expect(URL.canParse(`http://${host}:65535`)).toBe(true);
    },
  );

  it.each([
    "",
    "2001:db8::1",
    "node.example.com:80",
    "node.example.com.",
    "-",
    "nöde.example",
    "a b",
    "a/b",
    "h".repeat(254),
  ])("refuse %s as the host", (host) => {
    const text = `${COMPLETE}advertise_host: "${host}"\n`;
    expect(problems(["--config", configFile(text)])).toContain("advertise_host");
  });

  it("name everything that is missing, wrong or unknown", () => {
    const text = problems(["--config", configFile("control_url: ftp://x\ngeneration: 0\nsurprise: 1")]);
    for (const name of ["control_url", "node_id", "generation", "token_file", "state_dir", "data_dir", "surprise"]) {
      expect(text).toContain(name);
    }
  });

  it.each([["--config", "/nowhere/agent.yaml"], ["--surprise"], ["--port"]])(
    "refuse %s %s with a reason",
    (...argv) => {
      expect(problems(argv)).not.toBe("");
    },
  );

  it("refuse a file that is no mapping", () => {
    expect(problems(["--config", configFile("- a")])).toContain("must be a YAML mapping");
  });
});
