import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { page } from "./samples.ts";
import { ApiServer } from "./support.ts";

const anvil = new URL("../../chains/anvil", import.meta.url).pathname;
const chain = {
  id: "anvil",
  display_name: "Anvil",
  node_types: [{ name: "full", providers: ["local"], regions: ["local"] }],
  content_hash: "sha256:00ff",
  pushed_at: "2026-11-30T10:00:00.000Z",
};

let api: ApiServer;
beforeEach(async () => {
  api = await ApiServer.start({
    "GET /chains": () => ({ body: page([chain]) }),
    "PUT /chains/anvil": () => ({ body: chain }),
  });
});
afterEach(() => api.close());

async function brokenChain(): Promise<string> {
  const dir = join(api.configHome, "anvil");
  await mkdir(dir);
  await cp(anvil, dir, { recursive: true });
  const profile = join(dir, "profile.yaml");
  await writeFile(profile, (await readFile(profile, "utf8")).replace(/^chain_id: .*$/m, "chain_id: 7"));
  return dir;
}

describe("chains list", () => {
  test("shows people a table", async () => {
    expect(await api.run(["chains", "list"])).toEqual({
      code: 0,
      stdout:
        "CHAIN  NAME   TYPES  PUSHED                VERSION\n" +
        "anvil  Anvil  full   2026-11-30 10:00:00Z  sha256:00ff\n",
      stderr: "",
    });
  });

  test("shows programs the answer as it came", async () => {
    const outcome = await api.run(["--json", "chains", "list"]);
    expect(JSON.parse(outcome.stdout)).toEqual(page([chain]));
  });
});

describe("chains validate", () => {
  test("accepts the chain that ships with the repository, without a deployment", async () => {
    const outcome = await api.runBare(["chains", "validate", anvil, "--json"]);
    expect(outcome).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(outcome.stdout)).toEqual({
      chain: "anvil",
      valid: true,
      content_hash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      node_types: ["full"],
    });
  });

  test("names file, path and value of what is wrong, and exits 1", async () => {
    const outcome = await api.runBare(["chains", "validate", await brokenChain()]);
    expect(outcome).toMatchObject({ code: 1, stdout: "" });
    expect(outcome.stderr).toContain("error: chain_invalid: ");
    expect(outcome.stderr).toContain("profile.yaml: chain_id = 7");
  });

  test("gives programs the issues as data", async () => {
    const outcome = await api.runBare(["chains", "validate", await brokenChain(), "--json"]);
    const { error } = JSON.parse(outcome.stderr);
    expect(error.issues).toContainEqual(
      expect.objectContaining({ file: "profile.yaml", path: "chain_id", value: "7" }),
    );
  });

  test("says when a directory holds no chain", async () => {
    const outcome = await api.runBare(["chains", "validate", "/nowhere"]);
    expect(outcome).toMatchObject({ code: 1 });
    expect(outcome.stderr).toContain("There are no YAML files in /nowhere.");
  });
});

describe("chains push", () => {
  test("sends every file of the chain's directory under its name", async () => {
    expect((await api.run(["chains", "push", anvil])).code).toBe(0);
    const { files } = Object(api.calls[0]?.body);
    expect(Object.keys(files).sort()).toEqual(
      expect.arrayContaining(["observation.yaml", "profile.yaml", "recipes/full.yaml", "runtime.yaml"]),
    );
    expect(files["profile.yaml"]).toBe(await readFile(join(anvil, "profile.yaml"), "utf8"));
  });

  test("sends nothing when the files are wrong", async () => {
    expect((await api.run(["chains", "push", await brokenChain()])).code).toBe(1);
    expect(api.calls).toEqual([]);
  });
});
