import { afterEach, describe, expect, test } from "vitest";
import { command, page } from "./samples.ts";
import { ApiServer, problem, type Route } from "./support.ts";

let api: ApiServer;
afterEach(() => api.close());

async function serve(routes: Readonly<Record<string, Route>>): Promise<ApiServer> {
  api = await ApiServer.start(routes);
  return api;
}

const created_at = "2026-11-30T10:00:00.000Z";
const keys = page([
  { name: "jwt", type: "jwt-hex", source: "generated", public_key: null, created_at, backed_up_at: null },
  { name: "node_key", type: "ed25519", source: "generated", public_key: "ea4a", created_at, backed_up_at: created_at },
]);

const TABLE =
  "NAME      TYPE     SOURCE     CREATED               BACKED UP             PUBLIC KEY\n" +
  "jwt       jwt-hex  generated  2026-11-30 10:00:00Z  no\n" +
  "node_key  ed25519  generated  2026-11-30 10:00:00Z  2026-11-30 10:00:00Z  ea4a\n";

describe("nodes keys", () => {
  test("lists what the keys are, as a table or as the API answers", async () => {
    await serve({ "GET /nodes/0192-node/keys": () => ({ body: keys }) });
    for (const args of [
      ["keys", "0192-node"],
      ["keys", "list", "0192-node"],
    ]) {
      expect(await api.run(["nodes", ...args])).toEqual({ code: 0, stdout: TABLE, stderr: "" });
    }
    const json = await api.run(["nodes", "keys", "list", "0192-node", "--json"]);
    expect(JSON.parse(json.stdout)).toEqual(keys);
  });

  test("restores them and shows them", async () => {
    await serve({ "POST /admin/nodes/0192-node/keys/restore": () => ({ body: keys }) });
    expect(await api.run(["nodes", "keys", "restore", "0192-node"])).toMatchObject({ code: 0, stdout: TABLE });
    expect(api.calls.map(({ body }) => body)).toEqual([{}]);
  });

  test("says why they were not restored", async () => {
    await serve({ "POST /admin/nodes/0192-node/keys/restore": () => problem(409, "keys_conflict", "Other keys.") });
    const outcome = await api.run(["nodes", "keys", "restore", "0192-node"]);
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toContain("keys_conflict");
  });

  test("has them injected again and shows the command", async () => {
    const injecting = { ...command, type: "INJECT_KEYS", state: "queued", ended_at: null };
    await serve({ "POST /nodes/0192-node/keys/inject": () => ({ status: 202, body: injecting }) });
    const outcome = await api.run(["nodes", "keys", "inject", "0192-node"]);
    expect(outcome.code).toBe(0);
    expect(outcome.stdout).toMatch(/^id +0192-command\ntype +INJECT_KEYS\nstate +queued\n/);
  });
});
