import {
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { errorCodeOf } from "../../../domain/errors.ts";
import { DataDir } from "../../../ops-agent/recipe/data-dir.ts";
import { replaceFile } from "../../../ops-agent/recipe/files.ts";
import { testDirectory } from "../support/directory.ts";

async function opened(): Promise<{ readonly root: string; readonly outside: string; readonly dataDir: DataDir }> {
  const base = testDirectory();
  const [root, outside] = [join(base, "data"), join(base, "outside")];
  mkdirSync(outside);
  return { root, outside, dataDir: await DataDir.open(root) };
}

function put(dataDir: DataDir, path: string, text = "new", mode = 0o644): Promise<void> {
  return replaceFile(dataDir, path, mode, (file) => file.writeFile(text));
}

async function codeOf(promise: Promise<unknown>): Promise<string | null> {
  return promise.then(() => null, errorCodeOf);
}

describe("the data directory", () => {
  it("takes files in directories that are made on the way, with their mode, in one rename", async () => {
    const { root, dataDir } = await opened();
    await put(dataDir, "a/b/run.sh", "x", 0o755);
    expect(readFileSync(join(root, "a/b/run.sh"), "utf8")).toBe("x");
    expect(statSync(join(root, "a/b/run.sh")).mode & 0o777).toBe(0o755);
    await put(dataDir, "a/b/run.sh", "y");
    expect(readFileSync(join(root, "a/b/run.sh"), "utf8")).toBe("y");
    expect(await readdir(join(root, "a/b"))).toEqual(["run.sh"]);
  });

  it("leaves the old file whole when the new one cannot be written", async () => {
    const { root, dataDir } = await opened();
    await put(dataDir, "f", "old");
    const failing = replaceFile(dataDir, "f", 0o644, async () => {
      throw new Error("no");
    });
    await expect(failing).rejects.toThrow("no");
    expect(readFileSync(join(root, "f"), "utf8")).toBe("old");
    expect(await readdir(root)).toEqual(["f"]);
  });

  it("is not left through a link to a directory, to a file, to nothing, or through several", async () => {
    const { root, outside, dataDir } = await opened();
    symlinkSync(outside, join(root, "out"));
    symlinkSync("out", join(root, "hop"));
    symlinkSync("../outside/made", join(root, "dangling"));
    for (const path of ["out/f", "out/deep/er/f", "hop/f", "dangling/f", "dangling/g/f"]) {
      expect(await codeOf(put(dataDir, path))).toBe("path_outside_data_dir");
    }
    writeFileSync(join(outside, "secret"), "secret");
    symlinkSync(join(outside, "secret"), join(root, "secret"));
    expect(await codeOf(dataDir.existing("secret"))).toBe("path_outside_data_dir");
    expect(await readdir(outside)).toEqual(["secret"]);
  });

  it("replaces a link that stands where a file is to be, and does not follow it", async () => {
    const { root, outside, dataDir } = await opened();
    writeFileSync(join(outside, "target"), "old");
    symlinkSync(join(outside, "target"), join(root, "f"));
    await put(dataDir, "f", "new");
    expect(readFileSync(join(outside, "target"), "utf8")).toBe("old");
    expect(readFileSync(join(root, "f"), "utf8")).toBe("new");
    expect(() => readlinkSync(join(root, "f"))).toThrow();
  });

  it("may be entered through links that stay inside", async () => {
    const { root, dataDir } = await opened();
    mkdirSync(join(root, "versions/1"), { recursive: true });
    symlinkSync("versions/1", join(root, "current"));
    await put(dataDir, "current/bin/f", "x");
    expect(readFileSync(join(root, "versions/1/bin/f"), "utf8")).toBe("x");
    expect(await dataDir.existing("current/bin/f")).toBe(join(root, "versions/1/bin/f"));
  });

  it("is not left when a directory is swapped for a link while it is in use", async () => {
    const { root, outside, dataDir } = await opened();
    await dataDir.withParent("d/f", async (parent, name) => {
      renameSync(join(root, "d"), join(root, "moved"));
      symlinkSync(outside, join(root, "d"));
      writeFileSync(`${parent.fd}/${name}`, "x");
    });
    expect(existsSync(join(outside, "f"))).toBe(false);
    expect(readFileSync(join(root, "moved/f"), "utf8")).toBe("x");
  });

  it("is never left by any path over any links", async () => {
    const names = ["a", "b", "up", "abs", "self", "loop", ".."];
    const path = fc.array(fc.constantFrom(...names), { minLength: 1, maxLength: 5 }).map((parts) => parts.join("/"));
    await fc.assert(
      fc.asyncProperty(fc.array(path, { maxLength: 6 }), async (paths) => {
        const { root, outside, dataDir } = await opened();
        symlinkSync("../outside", join(root, "up"));
        symlinkSync(outside, join(root, "abs"));
        symlinkSync(".", join(root, "self"));
        symlinkSync("loop", join(root, "loop"));
        for (const one of paths) await put(dataDir, one).catch(() => undefined);
        expect(await readdir(outside)).toEqual([]);
        expect((await readdir(join(root, ".."))).sort()).toEqual(["data", "outside"]);
      }),
      { numRuns: 60 },
    );
  });
});
