import { afterEach, describe, expect, test } from "vitest";
import { command, expectedAgent, node, page, replacedAgent, saga, subscription } from "./samples.ts";
import { type Answer, ApiServer, problem, type Route } from "./support.ts";

let api: ApiServer;
afterEach(() => api.close());

async function serve(routes: Readonly<Record<string, Route>>): Promise<ApiServer> {
  api = await ApiServer.start(routes);
  return api;
}

/** Answers one after the other, the last one for ever. */
function inTurn(...answers: readonly Answer[]): Route {
  let asked = 0;
  return () => answers[Math.min(asked++, answers.length - 1)] ?? "hang up";
}

const created = { status: 202, body: { ...node, state: "provisioning", display_state: "provisioning" } };

describe("nodes create", () => {
  test("asks for a node of a subscription", async () => {
    await serve({ "POST /nodes": () => created });
    const outcome = await api.run(["nodes", "create", "--subscription", "0192-sub"]);
    expect(outcome.code).toBe(0);
    expect(outcome.stdout).toMatch(/^id +0192-node\nstate +provisioning\n/);
    expect(api.calls.map((call) => call.body)).toEqual([{ subscription_id: "0192-sub" }]);
  });

  test("makes an operator's subscription with it", async () => {
    await serve({ "POST /subscriptions": () => ({ status: 201, body: subscription }), "POST /nodes": () => created });
    const outcome = await api.run(["nodes", "create", "--chain", "anvil", "--node-type", "full", "--json"]);
    expect(JSON.parse(outcome.stdout)).toEqual(created.body);
    expect(outcome.stderr).toBe("");
    expect(api.calls.map((call) => [call.path, call.body])).toEqual([
      ["/subscriptions", { chain: "anvil", node_type: "full", status: "active" }],
      ["/nodes", { subscription_id: "0192-sub" }],
    ]);
  });

  test("asks for the place that was named", async () => {
    await serve({ "POST /subscriptions": () => ({ status: 201, body: subscription }), "POST /nodes": () => created });
    const place = ["--provider", "hetzner", "--region", "fsn1"];
    await api.run(["nodes", "create", "--chain", "anvil", "--node-type", "full", ...place]);
    expect(api.calls[0]?.body).toMatchObject({ provider: "hetzner", region: "fsn1" });
  });

  const wait = ["nodes", "create", "--subscription", "0192-sub", "--wait"];
  const running = saga("provision-node", "running", [
    ["ValidateProvisionInputs", "succeeded"],
    ["RunTerraform", "running"],
  ]);

  test("shows each step once when it begins and once when it ends, then the node", async () => {
    const succeeded = saga("provision-node", "succeeded", [
      ["ValidateProvisionInputs", "succeeded"],
      ["RunTerraform", "succeeded"],
      ["CaptureChainGeneratedKeys", "skipped"],
    ]);
    await serve({
      "POST /nodes": () => created,
      "GET /nodes/0192-node/saga": inTurn({ body: page([]) }, { body: page([running]) }, { body: page([succeeded]) }),
      "GET /nodes/0192-node": () => ({ body: { ...node, state: "syncing", display_state: "syncing" } }),
    });
    const outcome = await api.run(wait);
    expect(outcome.code).toBe(0);
    expect(outcome.stderr).toBe(
      "node 0192-node\n" +
        "✓ ValidateProvisionInputs  1.5 s\n" +
        "… RunTerraform\n" +
        "✓ RunTerraform  1.5 s\n" +
        "- CaptureChainGeneratedKeys  1.5 s\n",
    );
    expect(outcome.stdout).toContain("syncing");
  });

  test("fails with the saga's code when it did not succeed", async () => {
    const failed = saga("provision-node", "failed", [["WaitForAgentReady", "failed"]]);
    await serve({ "POST /nodes": () => created, "GET /nodes/0192-node/saga": () => ({ body: page([failed]) }) });
    const outcome = await api.run(wait);
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toContain("✗ WaitForAgentReady");
    expect(outcome.stderr).toContain("error: agent_not_ready: provision-node-0192 ended failed: the agent did not");
  });

  test("stops waiting after the time that was given, while the saga goes on", async () => {
    await serve({ "POST /nodes": () => created, "GET /nodes/0192-node/saga": () => ({ body: page([running]) }) });
    const outcome = await api.run([...wait, "--timeout", "1s"]);
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toContain("error: wait_timeout: ");
  });
});

describe("nodes list", () => {
  test("shows people a table and how to see more", async () => {
    await serve({ "GET /nodes": () => ({ body: page([node], "abc") }) });
    const outcome = await api.run(["nodes", "list", "--state", "healthy", "--chain", "anvil", "--limit", "1"]);
    expect(outcome).toEqual({
      code: 0,
      stdout:
        "ID         CHAIN  TYPE  STATE    SYNC    SINCE                 PROVIDER\n" +
        "0192-node  anvil  full  healthy  synced  2026-11-30 10:01:02Z  local/local\n",
      stderr: "More with --cursor abc, or all with --all.\n",
    });
    expect(api.calls[0]?.path).toBe("/nodes?state=healthy&chain=anvil&limit=1");
  });

  test("follows the cursor through every page with --all", async () => {
    await serve({
      "GET /nodes": ({ path }) => ({ body: path.includes("cursor=abc") ? page([node]) : page([node], "abc") }),
    });
    const outcome = await api.run(["nodes", "list", "--all", "--json"]);
    expect(JSON.parse(outcome.stdout)).toEqual(page([node, node]));
  });

  test("does not let a reported text steer the terminal", async () => {
    await serve({ "GET /nodes": () => ({ body: page([{ ...node, display_state: "\u001b[2Jgone\r\nfake" }]) }) });
    const outcome = await api.run(["nodes", "list"]);
    expect(outcome.stdout).toContain("gone fake");
    expect(outcome.stdout.split("\n")).toHaveLength(3);
  });
});

test("nodes get shows the node, its sagas' steps and its latest commands", async () => {
  await serve({
    "GET /nodes/0192-node": () => ({ body: { ...node, agents: [replacedAgent, expectedAgent] } }),
    "GET /nodes/0192-node/saga": () => ({
      body: page([saga("provision-node", "succeeded", [["StartNode", "succeeded"]])]),
    }),
    "GET /nodes/0192-node/commands": () => ({ body: page([command]) }),
  });
  const { stdout } = await api.run(["nodes", "get", "0192-node"]);
  expect(stdout).toMatch(/endpoint rpc +http:\/\/127\.0\.0\.1:8545\n/);
  expect(stdout).toMatch(/agent 1 +revoked, not connected, enrolled 2026-11-30 10:00:00Z, key 0123456789abcdef\n/);
  expect(stdout).toMatch(/agent 2 +active, not connected, not enrolled\n/);
  expect(stdout).toContain("provision-node succeeded\n  ✓ StartNode  1.5 s\n");
  expect(stdout).toContain("0192-command  RESTART  completed");
});

test("nodes get names a node that the key may not see", async () => {
  await serve({ "GET /nodes/x%2Fy": () => problem(404, "node_not_found", "There is no node x/y.") });
  const outcome = await api.run(["nodes", "get", "x/y"]);
  expect(outcome).toMatchObject({ code: 1, stdout: "" });
  expect(outcome.stderr).toContain("error: node_not_found: There is no node x/y.");
});

test("nodes events shows what happened, without what says nothing", async () => {
  const body = { kind: "state_changed", from: "syncing", to: "healthy", forced: false, reason: null };
  const event = { id: "e-1", kind: "state_changed", occurred_at: "2026-11-30T10:01:02.345Z", body };
  await serve({ "GET /nodes/0192-node/events": () => ({ body: page([event]) }) });
  const { stdout } = await api.run(["nodes", "events", "0192-node"]);
  expect(stdout).toContain("2026-11-30 10:01:02Z  state_changed  from=syncing to=healthy\n");
});

describe("nodes commands", () => {
  const routes = {
    "GET /nodes/n-1/commands": () => ({ body: page([command]) }),
    "POST /nodes/n-1/commands": () => ({ status: 202, body: command }),
    "GET /nodes/n-1/commands/c-1": () => ({ body: command }),
    "POST /nodes/n-1/commands/c-1/cancel": () => ({ body: command }),
  };

  test.each([
    [["n-1"], "GET", "/nodes/n-1/commands?limit=50", null],
    [["list", "n-1", "--limit", "3"], "GET", "/nodes/n-1/commands?limit=3", null],
    [["get", "n-1", "c-1"], "GET", "/nodes/n-1/commands/c-1", null],
    [["send", "n-1", "RESTART"], "POST", "/nodes/n-1/commands", { type: "RESTART" }],
    [["send", "n-1", "STOP", "--ttl", "5m"], "POST", "/nodes/n-1/commands", { type: "STOP", ttl_seconds: 300 }],
    [["cancel", "n-1", "c-1"], "POST", "/nodes/n-1/commands/c-1/cancel", {}],
  ])("%j", async (args, method, path, body) => {
    await serve(routes);
    const outcome = await api.run(["nodes", "commands", ...args]);
    expect(outcome).toMatchObject({ code: 0, stderr: "" });
    expect(outcome.stdout).toContain("RESTART");
    expect(api.calls).toMatchObject([{ method, path, body }]);
  });
});

test("nodes terminate follows the terminate saga with --wait", async () => {
  const ended = { ...node, state: "terminated", display_state: "terminated" };
  const steps = [["DestroyInfra", "succeeded"]] as const;
  await serve({
    "POST /nodes/0192-node/terminate": () => ({ status: 202, body: node }),
    "GET /nodes/0192-node/saga": () => ({
      body: page([saga("provision-node", "succeeded", []), saga("terminate-node", "succeeded", steps)]),
    }),
    "GET /nodes/0192-node": () => ({ body: ended }),
  });
  const outcome = await api.run(["nodes", "terminate", "0192-node", "--wait"]);
  expect(outcome.stderr).toBe("✓ DestroyInfra  1.5 s\n");
  expect(outcome.stdout).toContain("terminated");
});

describe("repair projections", () => {
  const batch = (unreachable: number, next_cursor: string | null) => ({
    body: { nodes: 100, written: 100 - unreachable, unreachable, next_cursor },
  });

  test("goes on until every node has been looked at", async () => {
    await serve({ "POST /admin/repair/projections": inTurn(batch(0, "abc"), batch(0, null)) });
    expect(await api.run(["repair", "projections"])).toEqual({
      code: 0,
      stdout: "nodes        200\nwritten      200\nunreachable  0\n",
      stderr: "100 nodes so far\n",
    });
    expect(api.calls.map((call) => call.body)).toEqual([{}, { cursor: "abc" }]);
  });

  test("fails when the objects of some nodes did not answer", async () => {
    await serve({ "POST /admin/repair/projections": inTurn(batch(1, "abc"), batch(0, null)) });
    const outcome = await api.run(["repair", "projections", "--json"]);
    expect(outcome).toMatchObject({ code: 1, stdout: "" });
    expect(JSON.parse(outcome.stderr)).toMatchObject({
      error: { code: "nodes_unreachable", nodes: 200, written: 199, unreachable: 1 },
    });
  });
});
