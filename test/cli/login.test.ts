import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { page } from "./samples.ts";
import { ApiServer, problem } from "./support.ts";

const keyAnswer = {
  id: "k-1",
  name: "ops",
  scopes: ["admin"],
  created_at: "2026-11-30T10:00:00.000Z",
  expires_at: null,
  last_used_at: null,
  key: "orr_k-1_secret",
};

let api: ApiServer;
beforeEach(async () => {
  api = await ApiServer.start({
    "GET /chains": () => ({ body: page([]) }),
    "POST /admin/api-keys": ({ headers }) =>
      headers.authorization === "Bearer the-bootstrap-secret"
        ? { status: 201, body: keyAnswer }
        : problem(403, "insufficient_scope", "The key may not do this."),
  });
});
afterEach(() => api.close());

const configPath = () => join(api.configHome, "orrery/config.json");

describe("login", () => {
  test("keeps address and key where only their owner can read them", async () => {
    const outcome = await api.runBare(["login", "--url", `${api.url}/`, "--key", "orr_a"]);
    expect(outcome).toEqual({
      code: 0,
      stdout: `Logged in to ${api.url}; the key is kept in ${configPath()}.\n`,
      stderr: "",
    });
    expect((await stat(configPath())).mode & 0o777).toBe(0o600);
    expect(JSON.parse(await readFile(configPath(), "utf8"))).toEqual({ url: api.url, key: "orr_a" });
  });

  test("narrows the permissions of a file that was open to others", async () => {
    await mkdir(join(api.configHome, "orrery"));
    await writeFile(configPath(), "{}");
    await chmod(configPath(), 0o644);
    await api.runBare(["login", "--url", api.url, "--key", "orr_a"]);
    expect((await stat(configPath())).mode & 0o777).toBe(0o600);
  });

  test("reads the key from standard input, so that it is in no shell history", async () => {
    await api.runBare(["login", "--url", api.url, "--key", "-"], {}, "orr_typed\n");
    expect(JSON.parse(await readFile(configPath(), "utf8"))).toMatchObject({ key: "orr_typed" });
  });

  test("is what later commands use, unless the environment says otherwise", async () => {
    await api.runBare(["login", "--url", api.url, "--key", "orr_stored"]);
    await api.runBare(["chains", "list"]);
    await api.runBare(["chains", "list"], { ORRERY_API_KEY: "orr_env" });
    expect(api.calls.map((call) => call.headers.authorization)).toEqual(["Bearer orr_stored", "Bearer orr_env"]);
  });

  test("is asked for when nothing is set", async () => {
    const outcome = await api.runBare(["chains", "list"]);
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toContain("error: not_logged_in: No deployment is set.");
    expect(outcome.stderr).toContain("orrery login");
  });

  test("is asked for again when its file is broken", async () => {
    await mkdir(join(api.configHome, "orrery"));
    await writeFile(configPath(), "{");
    expect((await api.runBare(["chains", "list"])).stderr).toContain("error: configuration_invalid: ");
  });
});

describe("admin create-key", () => {
  const args = ["admin", "create-key", "--name", "ops", "--scope", "admin", "nodes:read"];

  test("mints the first key with the bootstrap secret of the environment, without being logged in", async () => {
    const outcome = await api.runBare([...args, "--url", api.url], { ORRERY_BOOTSTRAP_SECRET: "the-bootstrap-secret" });
    expect(outcome.code).toBe(0);
    expect(outcome.stdout).toContain("orr_k-1_secret");
    expect(outcome.stderr).toContain("shown this once");
    expect(api.calls[0]?.body).toEqual({ name: "ops", scopes: ["admin", "nodes:read"] });
  });

  test("or with that of a file, and prints JSON for programs", async () => {
    const file = join(api.configHome, "secret");
    await writeFile(file, "the-bootstrap-secret\n");
    const outcome = await api.runBare([...args, "--url", api.url, "--bootstrap-secret-file", file, "--json"]);
    expect(outcome).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(outcome.stdout)).toMatchObject({ key: "orr_k-1_secret" });
  });

  test("asks for an expiry as a moment", async () => {
    const before = Date.now();
    await api.run([...args, "--expires-in", "30d"], { ORRERY_BOOTSTRAP_SECRET: "the-bootstrap-secret" });
    const { expires_at } = Object(api.calls[0]?.body);
    const days = (Date.parse(expires_at) - before) / 86_400_000;
    expect(days).toBeGreaterThanOrEqual(30);
    expect(days).toBeLessThan(30.01);
  });

  test("uses the operator's key when there is no bootstrap secret", async () => {
    const outcome = await api.run(args);
    expect(api.calls[0]?.headers.authorization).toBe("Bearer orr_test_key");
    expect(outcome.stderr).toContain("error: insufficient_scope: ");
  });

  test("says so when the one answer that shows the key was lost", async () => {
    const again = { status: 201, body: { ...keyAnswer, key: null } };
    api.replace("POST /admin/api-keys", ({ headers }) => {
      const sameAsBefore = api.calls.filter((call) => call.headers["idempotency-key"] === headers["idempotency-key"]);
      return sameAsBefore.length === 1 ? "hang up" : again;
    });
    const outcome = await api.run(args);
    expect(outcome).toMatchObject({ code: 1, stdout: "" });
    expect(outcome.stderr).toContain("error: key_lost: The key k-1 was made");
  });

  test("can give a customer a key that sees that customer's rows alone", async () => {
    const user = "019ad2c5-6f2e-7cc0-9a3e-0d9f5b1c2a44";
    await api.run([...args, "--user", user], { ORRERY_BOOTSTRAP_SECRET: "the-bootstrap-secret" });
    expect(api.calls[0]?.body).toMatchObject({ user_id: user });
  });

  test("names a secret file that cannot be read", async () => {
    const outcome = await api.run([...args, "--bootstrap-secret-file", "/nowhere/secret"]);
    expect(outcome.code).toBe(2);
    expect(outcome.stderr).toContain("/nowhere/secret");
  });
});
