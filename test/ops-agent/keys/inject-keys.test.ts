import { execFileSync, spawnSync } from "node:child_process";
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { describe, it, onTestFinished, vi } from "vitest";
import { errorCodeOf } from "../../../domain/errors.ts";
import { exchangePublicKey } from "../../../domain/identity/handshake.ts";
import * as envelope from "../../../domain/keys/envelope.ts";
import { injectKeys } from "../../../ops-agent/keys/inject-keys.ts";
import { temporaryName } from "../../../ops-agent/keys/key-files.ts";
import { DataDir } from "../../../ops-agent/recipe/data-dir.ts";
import type { EncryptedKey, InjectKeysPayload } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { testDirectory } from "../support/directory.ts";
import { INSTALLATION_ID, NODE_ID, SEALING_SECRET, sealedKeys } from "./sealed-keys.ts";

const NONE = new Uint8Array();
const isRoot = process.getuid?.() === 0;

async function host(root = join(testDirectory(), "data")) {
  const dataDir = await DataDir.open(root);
  return { nodeId: NODE_ID, installationId: INSTALLATION_ID, sealingSecretKey: () => SEALING_SECRET, dataDir };
}

type Host = Awaited<ReturnType<typeof host>>;

function inject(to: Host, payload: InjectKeysPayload, signal = new AbortController().signal) {
  return injectKeys(payload, to, signal);
}

async function codeOf(promise: Promise<unknown>): Promise<string | null> {
  return promise.then(() => null, errorCodeOf);
}

const read = (to: Host, path: string) => readFileSync(join(to.dataDir.path, path), "utf8");
const modeOf = (to: Host, path: string) => statSync(join(to.dataDir.path, path)).mode & 0o7777;

/** Every file below a directory, leftovers included. */
function filesOf(root: string): string[] {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => !entry.isDirectory()).map(({ parentPath, name }) => join(parentPath, name));
}

describe("INJECT_KEYS", () => {
  it("writes each key with its mode, whatever the umask, and tells of names alone", async ({ expect }) => {
    const to = await host();
    const umask = process.umask(0o077);
    onTestFinished(() => {
      process.umask(umask);
    });
    const payload = await sealedKeys([
      { name: "node_key", text: "one" },
      { name: "jwt", text: "two", path: "etc/deep/jwt.hex", mode: 0o640 },
      { name: "validator", text: "three", mode: 0o400 },
    ]);
    expect(await inject(to, payload)).toEqual({ keys: "node_key,jwt,validator" });
    expect(
      ["keys/node_key", "etc/deep/jwt.hex", "keys/validator"].map((path) => [read(to, path), modeOf(to, path)]),
    ).toEqual([
      ["one", 0o600],
      ["two", 0o640],
      ["three", 0o400],
    ]);
    expect(filesOf(to.dataDir.path)).toHaveLength(3);
  });

  it("is a success again with the same keys, and replaces other ones", async ({ expect }) => {
    const to = await host();
    await inject(to, await sealedKeys([{ name: "node_key", text: "one", mode: 0o400 }]));
    await inject(to, await sealedKeys([{ name: "node_key", text: "one", mode: 0o400 }]));
    expect(read(to, "keys/node_key")).toBe("one");
    await inject(to, await sealedKeys([{ name: "node_key", text: "two" }]));
    expect([read(to, "keys/node_key"), modeOf(to, "keys/node_key")]).toEqual(["two", 0o600]);
    expect(filesOf(to.dataDir.path)).toHaveLength(1);
  });

  it("writes none of them when one was left out, put in twice or put in from elsewhere", async ({ expect }) => {
    const keys = ["first", "second", "third"].map((name) => ({ name, text: name }));
    const other = await sealedKeys(keys);
    const spoils = [
      ...keys.map((_key, at) => (payload: InjectKeysPayload) => payload.keys.splice(at, 1)),
      (payload: InjectKeysPayload) => payload.keys.splice(0),
      (payload: InjectKeysPayload) =>
        payload.keys.push(...other.keys.slice(0, 1).map((key) => ({ ...key, path: "x" }))),
      (payload: InjectKeysPayload) =>
        payload.keys.push(...payload.keys.slice(0, 1).map((key) => ({ ...key, path: "x" }))),
      (payload: InjectKeysPayload) => payload.keys.splice(0, 1, ...other.keys.slice(0, 1)),
      (payload: InjectKeysPayload) => Object.assign(payload, { keysMac: NONE }),
      (payload: InjectKeysPayload) => Object.assign(payload, { keysMac: payload.keysMac.subarray(1) }),
      (payload: InjectKeysPayload) => Object.assign(payload, { keysMac: other.keysMac }),
    ];
    for (const spoil of spoils) {
      const to = await host();
      const payload = await sealedKeys(keys);
      spoil(payload);
      expect(await codeOf(inject(to, payload))).toBe("key_unreadable");
      expect(filesOf(to.dataDir.path)).toEqual([]);
    }
    const to = await host();
    const payload = await sealedKeys(keys);
    payload.keys.reverse();
    await inject(to, payload);
    expect(filesOf(to.dataDir.path)).toHaveLength(keys.length);
  });

  it("writes none of them when one is cut off, altered, another node's, or said to be another", async ({ expect }) => {
    const keys = [
      { name: "first", text: "one" },
      { name: "second", text: "two" },
    ];
    const second = (change: Partial<EncryptedKey>) => (payload: InjectKeysPayload) => {
      Object.assign(payload.keys[1] ?? {}, change);
    };
    const spoils = [
      (payload: InjectKeysPayload) =>
        second({ ciphertext: payload.keys[1]?.ciphertext.subarray(0, -1) ?? NONE })(payload),
      second({ ciphertext: NONE }),
      second({ nonce: new Uint8Array(12) }),
      second({ nonce: NONE }),
      second({ name: "first" }),
      second({ keyType: "secp256k1" }),
      second({ source: "user" }),
      second({ publicKey: new Uint8Array(32) }),
      second({ publicKey: NONE }),
      (payload: InjectKeysPayload) => {
        payload.sealedDek = payload.sealedDek.subarray(0, 91);
      },
      (payload: InjectKeysPayload) => {
        payload.sealedDek = NONE;
      },
    ];
    for (const spoil of spoils) {
      const to = await host();
      const payload = await sealedKeys(keys);
      spoil(payload);
      expect(await codeOf(inject(to, payload))).toBe("key_unreadable");
      expect(filesOf(to.dataDir.path)).toEqual([]);
    }
    const others = [
      sealedKeys(keys, { nodeId: "another", installationId: INSTALLATION_ID }),
      sealedKeys(keys, { nodeId: NODE_ID, installationId: "another" }),
      sealedKeys(keys, undefined, exchangePublicKey(new Uint8Array(32).fill(8))),
    ];
    for (const payload of await Promise.all(others)) {
      const to = await host();
      expect(await codeOf(inject(to, payload))).toBe("key_unreadable");
      expect(filesOf(to.dataDir.path)).toEqual([]);
    }
  });

  it("writes nothing outside the data directory: not by its path, not through a link", async ({ expect }) => {
    const base = testDirectory();
    const outside = join(base, "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "file"), "untouched");
    const to = await host(join(base, "data"));
    symlinkSync(outside, join(to.dataDir.path, "out"));
    for (const path of ["../outside/file", "/etc/key", "out/file", "keys/../../outside/file", ""]) {
      const payload = await sealedKeys([
        { name: "good", text: "one" },
        { name: "bad", text: "two", path },
      ]);
      expect(await codeOf(inject(to, payload))).toBe("path_outside_data_dir");
      expect(existsSync(join(to.dataDir.path, "keys/good"))).toBe(false);
      expect(readdirSync(outside)).toEqual(["file"]);
    }
    // A link at the very place is replaced, and what it led to is left alone.
    symlinkSync(join(outside, "file"), join(to.dataDir.path, "key"));
    await inject(to, await sealedKeys([{ name: "node_key", text: "one", path: "key" }]));
    expect(read(to, "key")).toBe("one");
    expect(readFileSync(join(outside, "file"), "utf8")).toBe("untouched");
    expect(readdirSync(outside)).toEqual(["file"]);
  });

  it("gives a key to its account, and names one that the host does not have", async (context) => {
    const { expect } = context;
    const to = await host();
    for (const owner of ["no-such-account", "-u", "root root", "0"]) {
      const payload = await sealedKeys([{ name: "node_key", text: "one", owner }]);
      await expect(inject(to, payload)).rejects.toMatchObject({
        code: "key_injection_failed",
        message: expect.stringContaining("no account"),
      });
    }
    expect(filesOf(to.dataDir.path)).toEqual([]);
    await inject(to, await sealedKeys([{ name: "own", text: "one", owner: userInfo().username }]));
    expect(read(to, "keys/own")).toBe("one");
    if (!isRoot) return context.skip("giving a file to another account needs root");
    await inject(to, await sealedKeys([{ name: "given", text: "two", owner: "nobody", mode: 0o640 }]));
    const { uid, gid } = statSync(join(to.dataDir.path, "keys/given"));
    expect([uid, gid]).toEqual([idOf("-u"), idOf("-g")]);
    expect(modeOf(to, "keys/given")).toBe(0o640);
  });

  it("says so when the agent may not give files away, and leaves nothing", async ({ expect }) => {
    const root = join(testDirectory(), "data");
    mkdirSync(root);
    if (isRoot) {
      chownSync(join(root, ".."), idOf("-u"), idOf("-g"));
      chownSync(root, idOf("-u"), idOf("-g"));
    }
    const program = join(import.meta.dirname, "inject-as.ts");
    const { stdout } = spawnSync(process.execPath, [program, root, "root"], {
      encoding: "utf8",
      ...(isRoot ? { uid: idOf("-u"), gid: idOf("-g") } : {}),
    });
    expect(stdout).toMatch(/^key_injection_failed: The agent may not give the key node_key to the account 0:0/);
    expect(filesOf(root)).toEqual([]);
  });

  it("refuses permissions for everybody, none at all and set-id bits, and two keys at one place", async ({
    expect,
  }) => {
    const to = await host();
    for (const mode of [0o604, 0o602, 0o700, 0o4600, 0]) {
      const payload = await sealedKeys([{ name: "node_key", text: "one", mode }]);
      expect(await codeOf(inject(to, payload))).toBe("key_injection_failed");
    }
    const twice = await sealedKeys([
      { name: "one", text: "one", path: "key" },
      { name: "two", text: "two", path: "key" },
    ]);
    expect(await codeOf(inject(to, twice))).toBe("key_injection_failed");
    expect(filesOf(to.dataDir.path)).toEqual([]);
  });

  it("leaves the old keys whole when the disk is full, and no half file", async (context) => {
    const { expect } = context;
    const root = join(testDirectory(), "small");
    mkdirSync(root);
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", root], { stdio: "pipe" });
    } catch {
      context.skip("mounting a small file system needs root");
    }
    onTestFinished(() => {
      execFileSync("umount", [root]);
    });
    const to = await host(root);
    await inject(to, await sealedKeys([{ name: "first", text: "old" }]));
    const tooMuch = await sealedKeys([
      { name: "first", text: "new" },
      { name: "second", text: "x".repeat(100_000) },
    ]);
    expect(await codeOf(inject(to, tooMuch))).toBe("disk_full");
    expect(read(to, "keys/first")).toBe("old");
    expect(filesOf(root)).toHaveLength(1);
  });

  it("touches no key when one of their places is a directory", async ({ expect }) => {
    const to = await host();
    mkdirSync(join(to.dataDir.path, "keys/second"), { recursive: true });
    const payload = await sealedKeys([
      { name: "first", text: "one" },
      { name: "second", text: "two" },
    ]);
    await expect(inject(to, payload)).rejects.toMatchObject({ code: "key_injection_failed", message: /directory/ });
    expect(filesOf(to.dataDir.path)).toEqual([]);
  });

  it("clears away what a crash in the middle of an earlier try has left", async ({ expect }) => {
    const to = await host();
    const payload = await sealedKeys([{ name: "node_key", text: "one" }]);
    await inject(to, payload);
    const leftover = join(to.dataDir.path, "keys", temporaryName("node_key"));
    writeFileSync(leftover, "half", { mode: 0o600 });
    await inject(to, payload);
    expect(existsSync(leftover)).toBe(false);
    expect(read(to, "keys/node_key")).toBe("one");
  });

  it("writes nothing once it is cancelled", async ({ expect }) => {
    const to = await host();
    const cancelled = AbortSignal.abort(new Error("cancelled"));
    await expect(inject(to, await sealedKeys([{ name: "a", text: "one" }]), cancelled)).rejects.toThrow("cancelled");
    expect(filesOf(to.dataDir.path)).toEqual([]);
  });

  it("overwrites every key that it held in the clear, also when it fails", async ({ expect }) => {
    const held: Uint8Array[] = [];
    const real = envelope.decryptKey;
    vi.spyOn(envelope, "decryptKey").mockImplementation(async (...args) => {
      held.push(args[0]);
      const content = await real(...args);
      held.push(content);
      return content;
    });
    onTestFinished(() => {
      vi.restoreAllMocks();
    });
    const to = await host();
    const bad = await sealedKeys([
      { name: "first", text: "one" },
      { name: "second", text: "two", path: "../out" },
    ]);
    expect(await codeOf(inject(to, bad))).toBe("path_outside_data_dir");
    await inject(to, await sealedKeys([{ name: "first", text: "one" }]));
    expect(held.length).toBe(6);
    for (const secret of held) expect(secret).toEqual(new Uint8Array(secret.length));
    expect(SEALING_SECRET).toEqual(new Uint8Array(32).fill(9));
  });
});

function idOf(flag: "-u" | "-g"): number {
  return Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }));
}
