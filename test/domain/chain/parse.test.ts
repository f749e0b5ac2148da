import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { chainContentHash } from "../../../domain/chain/hash.ts";
import type { ChainIssue } from "../../../domain/chain/issues.ts";
import { parseChainFiles, parseNodeChain } from "../../../domain/chain/parse.ts";
import { profileSchema } from "../../../domain/chain/profile.ts";
import { DEFAULTS } from "../../../domain/defaults.ts";
import { errorCodeOf, OrreryError } from "../../../domain/errors.ts";
import { generatedKeys } from "../../../domain/keys/declared.ts";

const NAMES = ["profile.yaml", "runtime.yaml", "observation.yaml", "recipes/full.yaml"];
const anvil = Object.fromEntries(NAMES.map((name) => [name, readFileSync(`chains/anvil/${name}`, "utf8")]));

const KEY =
  "{ name: node_key, type: secret, source: generated, key_type: ed25519, phase: pre_provision, file: { path: a } }";
const OTHER_KEY = KEY.replace("node_key", "other").replace("path: a", "path: ./keys");

/** The chain with one text replaced in one file; the replacement must have taken place. */
function changed(file: string, from: string, to: string): Record<string, string> {
  const text = anvil[file] ?? "";
  expect(text).toContain(from);
  return { ...anvil, [file]: text.replace(from, to) };
}

function issuesOf(files: Readonly<Record<string, string>>): readonly ChainIssue[] {
  try {
    parseChainFiles("anvil", files);
    return [];
  } catch (error) {
    if (!(error instanceof OrreryError) || error.code !== "chain_invalid") throw error;
    const { issues } = error.details;
    return Array.isArray(issues) ? issues : [];
  }
}

describe("parseChainFiles", () => {
  it("gives a profile that can be stored, and read again by the same rules", () => {
    const { profile } = parseChainFiles("anvil", anvil);
    expect(profileSchema.parse(JSON.parse(JSON.stringify(profile)))).toEqual(profile);
  });

  it("reads the chain that ships with Orrery", () => {
    const chain = parseChainFiles("anvil", anvil);
    expect(chain.profile.node_types.full?.providers.local?.instance_type).toBe("process");
    expect(generatedKeys(chain.profile)).toEqual([
      {
        name: "node_key",
        type: "secp256k1",
        bytes: 32,
        file: { path: "keys/node-key", owner: null, mode: 0o600, encoding: "hex" },
      },
    ]);
    expect(chain.runtime.process.stop_grace).toBe(20_000);
    expect(chain.recipes.full?.steps.map((step) => step.type)).toEqual(["download", "write_file", "run"]);
    expect(chain.observation?.policies).toHaveLength(2);
  });

  it("takes a chain without observation.yaml, and reads one node type alone", () => {
    const { "observation.yaml": _, ...rest } = anvil;
    expect(parseChainFiles("anvil", rest).observation).toBeNull();
    expect(parseNodeChain("anvil", "full", rest).recipe.node_type).toBe("full");
    expect(() => parseNodeChain("anvil", "archive", anvil)).toThrow(/recipes\/archive.yaml is missing/);
  });

  it("names file, path, value and reason of a wrong type", () => {
    expect(issuesOf(changed("profile.yaml", "cpu: 1", "cpu: one"))).toEqual([
      {
        file: "profile.yaml",
        path: "node_types.full.resources.cpu",
        value: '"one"',
        message: "is wrong: expected number, received string",
      },
    ]);
  });

  it("collects the issues of all files at once", () => {
    const issues = issuesOf({
      ...changed("profile.yaml", "exclusive_keys: false", "exclusive_keys: maybe\nsurprise: 1"),
      "runtime.yaml": "a: [",
      "recipes/full.yaml": "steps: []",
      "notes.txt": "",
    });
    expect(new Set(issues.map(({ file }) => file))).toEqual(
      new Set(["notes.txt", "profile.yaml", "runtime.yaml", "recipes/full.yaml"]),
    );
    expect(issues).toContainEqual({
      file: "profile.yaml",
      path: "surprise",
      value: "1",
      message: "is not a key that is known here",
    });
  });

  it.each([
    ["recipes/full.yaml", "to: bin/anvil", "to: ../anvil", "steps.0.to"],
    ["recipes/full.yaml", "to: bin/anvil", "to: /usr/bin/anvil", "steps.0.to"],
    ["recipes/full.yaml", "argv: [bin/anvil", "argv: [/bin/sh", "steps.2.argv.0"],
    ["recipes/full.yaml", "path: state/README", "path: state/../../x", "steps.1.path"],
    ["recipes/full.yaml", "type: run", "type: docker", "steps.2.type"],
    ["recipes/full.yaml", "timeout: 30s", "timeout: 30", "steps.2.timeout"],
    ["recipes/full.yaml", 'mode: "0755"', 'mode: "4755"', "steps.0.mode"],
    ["recipes/full.yaml", ".Binaries.anvil.url", ".Binaries.anvl.url", "steps.0.url"],
    ["recipes/full.yaml", "node_type: full", "node_type: archive", "node_type"],
    ["recipes/full.yaml", "name: check that anvil runs", "name: download anvil", "steps.2.name"],
    ["runtime.yaml", "{{ .Ports.rpc }}", "{{ .Ports.rpc", "process.args.4"],
    ["runtime.yaml", "{{ .Ports.rpc }}", "{{ .Ports.p2p }}", "process.args.4"],
    ["runtime.yaml", "  port: rpc", "  port: http", "node_status.port"],
    ["runtime.yaml", "rpc: 8545", "rpc: 70000", "ports.rpc"],
    ["runtime.yaml", "chain_profile_id: anvil", "chain_profile_id: reth", "chain_profile_id"],
    ["profile.yaml", "chain_id: anvil", "chain_id: reth", "chain_id"],
    ["profile.yaml", "default_region: local", "default_region: mars", "node_types.full.providers.local.default_region"],
    [
      "profile.yaml",
      "default_providers: [local]",
      "default_providers: [hetzner]",
      "node_types.full.default_providers.0",
    ],
    ["profile.yaml", "linux-x64: sha256:10c1", "linux-x64: sha256:", "binaries.anvil.checksums.linux-x64"],
    ["profile.yaml", "exclusive_keys: false", "keys: []", "keys"],
    ["profile.yaml", "exclusive_keys: false", "keys: [{ name: node_key }]", "keys.0.key_type"],
    ["profile.yaml", "key_type: secp256k1", "key_type: rsa", "provisioning_inputs.0.key_type"],
    ["profile.yaml", "    key_type: secp256k1\n", "", "provisioning_inputs.0.key_type"],
    ["profile.yaml", "key_type: secp256k1", "key_type: secp256k1\n    bytes: 32", "provisioning_inputs.0.bytes"],
    ["profile.yaml", "key_type: secp256k1", "key_type: random\n    bytes: 15", "provisioning_inputs.0.bytes"],
    ["profile.yaml", "key_type: secp256k1", "key_type: random\n    bytes: 1025", "provisioning_inputs.0.bytes"],
    ["profile.yaml", "keys/node-key", "/etc/node-key", "provisioning_inputs.0.file.path"],
    ["profile.yaml", "keys/node-key", "keys/../../node-key", "provisioning_inputs.0.file.path"],
    ["profile.yaml", "keys/node-key", '"{{ .Paths.data }}/key"', "provisioning_inputs.0.file.path"],
    ["profile.yaml", "keys/node-key", 'keys/node-key, mode: "0644"', "provisioning_inputs.0.file.mode"],
    ["profile.yaml", "keys/node-key", 'keys/node-key, mode: "0700"', "provisioning_inputs.0.file.mode"],
    ["profile.yaml", "keys/node-key", "keys/node-key, owner: a b", "provisioning_inputs.0.file.owner"],
    ["profile.yaml", "keys/node-key", "keys/node-key, encoding: pem", "provisioning_inputs.0.file.encoding"],
    [
      "profile.yaml",
      "key_type: secp256k1\n    file: { path: keys/node-key }",
      "key_type: jwt-hex\n    file: { path: keys/node-key, encoding: raw }",
      "provisioning_inputs.0.file.encoding",
    ],
    ["profile.yaml", "provisioning_inputs:\n", `provisioning_inputs:\n  - ${KEY}\n`, "provisioning_inputs.1.name"],
    [
      "profile.yaml",
      "provisioning_inputs:\n",
      `provisioning_inputs:\n  - ${OTHER_KEY}\n`,
      "provisioning_inputs.1.file.path",
    ],
    ["recipes/full.yaml", "path: state/README", "path: keys/node-key", "steps.1.path"],
    ["recipes/full.yaml", "path: state/README", "path: ./keys//node-key/x", "steps.1.path"],
    ["recipes/full.yaml", "to: bin/anvil", "to: keys", "steps.0.to"],
    ["observation.yaml", "severity: warning", "severity: mild", "policies.0.severity"],
  ])("%s: %s -> %s is an issue at %s", (file, from, to, path) => {
    expect(issuesOf(changed(file, from, to)).map((issue) => `${issue.file} ${issue.path}`)).toContain(
      `${file} ${path}`,
    );
  });

  it("turns legacy keys into generated secrets", () => {
    const legacy = "keys: [{ name: node_key, key_type: ed25519 }]";
    const profile = (anvil["profile.yaml"] ?? "").replace(/provisioning_inputs:\n( .*\n)*/, `${legacy}\n`);
    expect(parseChainFiles("anvil", { ...anvil, "profile.yaml": profile }).profile.provisioning_inputs).toEqual([
      {
        name: "node_key",
        key_type: "ed25519",
        file: { path: "keys/node_key", mode: "0600", encoding: "hex" },
        type: "secret",
        source: "generated",
        required: true,
        phase: "pre_provision",
      },
    ]);
  });

  it("refuses what is too large, nested too deep, an alias bomb, duplicate keys and custom tags", () => {
    const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [${"*a,".repeat(40)}]\nc: [${"*b,".repeat(40)}]`;
    for (const text of ["x".repeat(60_000), "[".repeat(20_000), bomb, "a: 1\na: 2", "a: !!js/function x", ""]) {
      expect(issuesOf({ ...anvil, "observation.yaml": text })).not.toEqual([]);
    }
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`recipes/r${index}.yaml`, ""]));
    expect(issuesOf(many)).toHaveLength(1);
  });

  it.each([
    ["a document that holds itself", "display_name: &a [*a]"],
    ["a map that holds itself", "display_name: &a { b: *a }"],
    ["a document that is nested too deep", `display_name: ${"[".repeat(80)}${"]".repeat(80)}`],
    ["a NUL", 'display_name: "a\\0b"'],
    ["half of a surrogate pair", 'display_name: "a\\ud800b"'],
    ["half of a surrogate pair in a comment", "display_name: a # \ud800"],
    ["a control character in a name", 'display_name: "a\\x1b[2J"'],
    ["a key that validation would leave out", "display_name: a\n__proto__: { a: 1 }"],
  ])("refuses %s", (_what, line) => {
    expect(issuesOf(changed("profile.yaml", "display_name: Anvil (local Ethereum)", line))).not.toEqual([]);
  });

  it("names a node type that validation would leave out", () => {
    const files = changed("profile.yaml", "node_types:\n", "node_types:\n  __proto__: {}\n");
    expect(issuesOf(files)).toMatchObject([{ file: "profile.yaml", path: "node_types.__proto__" }]);
  });

  it("names no more issues than a person reads, and shortens what it repeats", () => {
    const line = Array.from({ length: 3_000 }, (_, index) => `k${index}: 1`).join("\n");
    const issues = issuesOf(changed("profile.yaml", "exclusive_keys: false", line));
    expect(issues).toHaveLength(DEFAULTS.api.issuesShown);
    const long = issuesOf(changed("profile.yaml", "exclusive_keys: false", `${"k".repeat(900)}: ${"v".repeat(900)}`));
    expect(JSON.stringify(long).length).toBeLessThan(500);
  });

  it("answers any garbage with chain_invalid and nothing else", () => {
    const text = fc.oneof(
      fc.string({ maxLength: 200 }),
      fc.json(),
      fc.constantFrom(...Object.values(anvil)).chain((whole) => fc.nat(whole.length).map((end) => whole.slice(0, end))),
      fc
        .constantFrom(...Object.values(anvil))
        .chain((whole) =>
          fc
            .tuple(fc.nat(whole.length), fc.string({ maxLength: 8 }))
            .map(([at, noise]) => whole.slice(0, at) + noise + whole.slice(at)),
        ),
    );
    const files = fc.dictionary(fc.constantFrom(...NAMES), text, { maxKeys: NAMES.length });
    fc.assert(
      fc.property(files, (garbage) => {
        let code: string | null = "chain_invalid";
        try {
          parseChainFiles("anvil", { ...anvil, ...garbage });
        } catch (error) {
          code = errorCodeOf(error);
        }
        expect(code).toBe("chain_invalid");
      }),
      { numRuns: 300 },
    );
  });
});

describe("chainContentHash", () => {
  it("depends on names and texts, not on their order", async () => {
    const hash = await chainContentHash(anvil);
    expect(hash).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(await chainContentHash(Object.fromEntries(Object.entries(anvil).reverse()))).toBe(hash);
    expect(await chainContentHash({ ...anvil, "runtime.yaml": "" })).not.toBe(hash);
    expect(await chainContentHash({ a: "b" })).not.toBe(await chainContentHash({ b: "a" }));
  });
});
