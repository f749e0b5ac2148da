import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { agentYaml } from "../../domain/node/agent-yaml.ts";
import { loadSettings } from "../../ops-agent/settings.ts";
import { page } from "./samples.ts";
import { type Answer, ApiServer } from "./support.ts";

let api: ApiServer;
afterEach(() => api.close());

const TOKEN = "5e".repeat(32);
const YAML = agentYaml({
  nodeId: "0192f1c4-0000-7000-8000-000000000001",
  generation: 2,
  controlUrl: "https://orrery.example.com",
  bridgeUrl: "grpcs://bridge.example.com:443",
  controlKeys: [{ keyId: "control-1", publicKey: "8f".repeat(32) }],
});
const ANSWER = { generation: 2, node_token: TOKEN, agent_yaml: YAML };

async function serve(...answers: readonly Answer[]): Promise<string> {
  let asked = 0;
  api = await ApiServer.start({
    "POST /nodes/n-1/reenroll": () => answers[Math.min(asked++, answers.length - 1)] ?? "hang up",
  });
  return join(api.configHome, "rebuilt");
}

const again = { status: 202, body: { ...ANSWER, node_token: null } };
const first = { status: 202, body: ANSWER };

describe("nodes reenroll", () => {
  test("writes what the rebuilt host needs, the token for its owner's eyes only", async () => {
    const out = await serve(first);
    const outcome = await api.run(["nodes", "reenroll", "n-1", "--out", out]);
    expect(outcome.code).toBe(0);
    expect(api.calls).toMatchObject([{ method: "POST", path: "/nodes/n-1/reenroll", body: {} }]);
    expect(await readFile(join(out, "node-token"), "utf8")).toBe(`${TOKEN}\n`);
    expect((await stat(join(out, "node-token"))).mode & 0o777).toBe(0o600);
    expect(await readFile(join(out, "agent.yaml"), "utf8")).toBe(YAML);
    expect(outcome.stdout).toBe(
      `generation  2\nnode_token  ${join(out, "node-token")}\nagent_yaml  ${join(out, "agent.yaml")}\n`,
    );
    expect(outcome.stdout + outcome.stderr).not.toContain(TOKEN);
  });

  test("writes files with which an agent starts as they are", async () => {
    const out = await serve(first);
    await api.run(["nodes", "reenroll", "n-1", "--out", out]);
    expect(loadSettings(["--config", join(out, "agent.yaml")])).toMatchObject({
      node_id: "0192f1c4-0000-7000-8000-000000000001",
      generation: 2,
      control_url: "https://orrery.example.com",
      bridge: { url: "grpcs://bridge.example.com:443", mode: "stream" },
      control_keys: [{ key_id: "control-1", public_key: "8f".repeat(32) }],
      token_file: join(out, "node-token"),
      state_dir: join(out, "state"),
      data_dir: join(out, "data"),
    });
  });

  test("prints them without a directory, and says that they are shown once", async () => {
    await serve(first);
    const outcome = await api.run(["nodes", "reenroll", "n-1"]);
    expect(outcome.code).toBe(0);
    expect(outcome.stdout).toBe(`generation  2\nnode token  ${TOKEN}\n\nagent.yaml:\n\n${YAML}`);
    expect(outcome.stderr).toContain("shown this once");
  });

  test("tells programs where the files are, or what the API answered", async () => {
    const out = await serve(first);
    const written = await api.run(["nodes", "reenroll", "n-1", "--out", out, "--json"]);
    expect(JSON.parse(written.stdout)).toEqual({
      generation: 2,
      node_token: join(out, "node-token"),
      agent_yaml: join(out, "agent.yaml"),
    });
    const printed = await api.run(["nodes", "reenroll", "n-1", "--json"]);
    expect([JSON.parse(printed.stdout), printed.stderr]).toEqual([ANSWER, ""]);
  });

  test("says so when the network lost the one answer with the token", async () => {
    const out = await serve("hang up", again);
    const outcome = await api.run(["nodes", "reenroll", "n-1", "--out", out]);
    expect(outcome).toMatchObject({ code: 1, stdout: "" });
    expect(outcome.stderr).toContain("error: token_lost: The node was re-enrolled as generation 2");
    expect(outcome.stderr).toContain("Run the command again");
  });

  test("asks nothing of the node when the files could not be kept", async () => {
    const out = await serve(first);
    await mkdir(out);
    await writeFile(join(out, "agent.yaml"), "another host's");
    const taken = await api.run(["nodes", "reenroll", "n-1", "--out", out]);
    expect(taken.code).toBe(2);
    expect(taken.stderr).toContain("is there already; name another directory");
    const blocked = await api.run(["nodes", "reenroll", "n-1", "--out", join(out, "agent.yaml", "x")]);
    expect(blocked.code).toBe(2);
    expect(blocked.stderr).toContain("cannot be made");
    expect(await readFile(join(out, "agent.yaml"), "utf8")).toBe("another host's");
    expect(api.calls).toEqual([]);
  });
});

test("admin control-keys shows what agents pin", async () => {
  const keys = page([
    { key_id: "control-2", public_key: "aa".repeat(32), status: "current" },
    { key_id: "control-1", public_key: "bb".repeat(32), status: "previous" },
  ]);
  api = await ApiServer.start({ "GET /admin/control-keys": () => ({ body: keys }) });
  const outcome = await api.run(["admin", "control-keys"]);
  expect(outcome.stdout).toBe(
    "KEY        STATUS    PUBLIC KEY\n" +
      `control-2  current   ${"aa".repeat(32)}\n` +
      `control-1  previous  ${"bb".repeat(32)}\n`,
  );
});
