import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chainHeight } from "../../dev/demo/node-life.ts";
import { type Stack, startStack } from "../../dev/stack.ts";
import { type Outcome, runOrrery } from "../cli/support.ts";

const repository = join(import.meta.dirname, "../..");

describe("an operator runs a deployment by the command line alone", () => {
  let directory: string;
  let stack: Stack | undefined;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "orrery-e2e-cli-"));
    stack = await startStack({ repoDir: repository, dataDir: join(directory, "data"), watch: false });
  });
  afterAll(async () => {
    await stack?.stop();
    await rm(directory, { recursive: true, force: true });
  });

  const orrery = (...args: string[]) => runOrrery(args, { XDG_CONFIG_HOME: directory });

  /** The result of a command that must succeed. */
  async function ask(...args: string[]) {
    const outcome = await orrery(...args, "--json");
    expect(outcome, outcome.stderr).toMatchObject({ code: 0 });
    return JSON.parse(outcome.stdout);
  }

  function errorOf(outcome: Outcome) {
    expect(outcome).toMatchObject({ code: 1, stdout: "" });
    return JSON.parse(outcome.stderr).error;
  }

  async function untilHealthy(nodeId: string) {
    return expect
      .poll(() => ask("nodes", "get", nodeId), { timeout: 60_000, interval: 500 })
      .toMatchObject({
        state: "healthy",
      });
  }

  test("makes itself a key, pushes a chain, provisions a node, restarts it, and terminates it", async () => {
    if (stack === undefined) throw new Error("The stack did not start.");
    await orrery("login", "--url", stack.url, "--key", stack.operatorKey);
    const { key } = await ask("admin", "create-key", "--name", "e2e", "--scope", "admin", "--expires-in", "1d");
    await orrery("login", "--url", stack.url, "--key", key);

    expect((await ask("admin", "keys")).items[0]).toMatchObject({ name: "e2e", scopes: ["admin"] });

    await ask("chains", "push", join(repository, "chains/anvil"));
    const chains = await ask("chains", "list");
    expect(chains.items).toContainEqual(expect.objectContaining({ id: "anvil" }));

    const created = await orrery("nodes", "create", "--chain", "anvil", "--node-type", "full", "--wait");
    expect(created, created.stderr).toMatchObject({ code: 0 });
    expect(created.stderr).toMatch(/✓ RunTerraform {2}\d/);
    expect((await ask("subscriptions", "list")).items).toMatchObject([{ chain: "anvil", status: "active" }]);
    const [node] = (await ask("nodes", "list", "--chain", "anvil")).items;
    await untilHealthy(node.id);
    expect(await chainHeight(await ask("nodes", "get", node.id))).toBeGreaterThanOrEqual(0);

    const { id } = await ask("nodes", "commands", "send", node.id, "RESTART");
    await expect
      .poll(() => ask("nodes", "commands", "get", node.id, id), { timeout: 60_000, interval: 500 })
      .toMatchObject({ state: "completed" });
    expect(await ask("repair", "projections")).toMatchObject({ unreachable: 0 });

    const shown = await orrery("nodes", "get", node.id);
    expect(shown.stdout).toContain("provision-node succeeded");
    expect(shown.stdout).toContain(id);
    const ended = await orrery("nodes", "terminate", node.id, "--wait");
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    expect((await ask("nodes", "get", node.id)).state).toBe("terminated");
    const events = await ask("nodes", "events", node.id, "--all");
    expect(events.items).toContainEqual(expect.objectContaining({ kind: "state_changed" }));
  });

  test("is told by code what the deployment refuses", async () => {
    const unknown = await orrery("nodes", "get", "019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44", "--json");
    expect(errorOf(unknown)).toMatchObject({ code: "node_not_found" });
    const chain = await orrery("nodes", "create", "--chain", "nowhere", "--node-type", "full", "--json");
    expect(errorOf(chain)).toMatchObject({ code: "chain_not_found", correlation_id: expect.any(String) });
    const cursor = await orrery("nodes", "list", "--cursor", "x", "--json");
    expect(errorOf(cursor)).toMatchObject({ code: "invalid_cursor" });
  });

  test("gives out keys that can do no more than they say", async () => {
    if (stack === undefined) throw new Error("The stack did not start.");
    const { key } = await ask("admin", "create-key", "--name", "reader", "--scope", "nodes:read");
    const reader = { ORRERY_URL: stack.url, ORRERY_API_KEY: key };
    expect((await runOrrery(["nodes", "list"], reader)).code).toBe(0);
    const refused = await runOrrery(["repair", "projections", "--json"], reader);
    expect(errorOf(refused)).toMatchObject({ code: "insufficient_scope", required_scope: "admin" });
  });
});
