import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { pack } from "tar-stream";
import { describe, expect, it } from "vitest";
import { errorCodeOf } from "../../../domain/errors.ts";
import { DataDir } from "../../../ops-agent/recipe/data-dir.ts";
import { extract } from "../../../ops-agent/recipe/extract.ts";
import { testDirectory } from "../support/directory.ts";

type Header = Parameters<ReturnType<typeof pack>["entry"]>[0];
interface Item extends Header {
  readonly text?: string;
}

async function archive(items: readonly Item[]): Promise<Buffer> {
  const tar = pack();
  for (const { text, ...header } of items) tar.entry(header, text ?? "");
  tar.finalize();
  const chunks: Uint8Array[] = [];
  for await (const chunk of tar) if (chunk instanceof Uint8Array) chunks.push(chunk);
  return Buffer.concat(chunks);
}

interface Unpacked {
  readonly base: string;
  readonly target: string;
  readonly code: string | null;
}

/** Unpacks an archive into `data/out`, beside which nothing may appear. */
async function unpacked(bytes: Uint8Array, format: "tar" | "tar.gz" = "tar", strip = 0, times = 1): Promise<Unpacked> {
  const base = testDirectory();
  mkdirSync(join(base, "data"));
  writeFileSync(join(base, "data/archive"), bytes);
  const dataDir = await DataDir.open(join(base, "data"));
  const signal = new AbortController().signal;
  let code: string | null = null;
  for (let time = 0; time < times; time += 1) {
    code = await extract(
      { from: "archive", to: "out", format, strip },
      { dataDir, signal, onProgress: () => undefined },
    ).then(() => null, errorCodeOf);
  }
  expect(readdirSync(base)).toEqual(["data"]);
  expect(readdirSync(join(base, "data")).sort()).toEqual(["archive", "out"]);
  return { base, target: join(base, "data/out"), code };
}

describe("extract", () => {
  const release: Item[] = [
    { name: "./", type: "directory" },
    { name: "release-1/", type: "directory" },
    { name: "release-1/bin/node", mode: 0o6777, text: "program" },
    { name: "release-1/current", type: "symlink", linkname: "bin" },
    { name: "release-1/lib/up", type: "symlink", linkname: "../bin/node" },
    { name: "release-1/bin/alias", type: "link", linkname: "release-1/bin/node" },
  ];

  it.each(["tar", "tar.gz"] as const)(
    "unpacks a %s with its directories, links and modes, again and again",
    async (format) => {
      const bytes = await archive(release);
      const { target, code } = await unpacked(format === "tar" ? bytes : gzipSync(bytes), format, 1, 2);
      expect(code).toBeNull();
      expect(readFileSync(join(target, "bin/node"), "utf8")).toBe("program");
      expect(statSync(join(target, "bin/node")).mode & 0o7777).toBe(0o755);
      expect(readlinkSync(join(target, "current"))).toBe("bin");
      expect(readFileSync(join(target, "lib/up"), "utf8")).toBe("program");
      expect(statSync(join(target, "bin/alias")).ino).toBe(statSync(join(target, "bin/node")).ino);
      expect(readdirSync(join(target, "bin")).sort()).toEqual(["alias", "node"]);
    },
  );

  it.each<[string, Item[]]>([
    ["goes up", [{ name: "../f", text: "x" }]],
    ["goes up in the middle", [{ name: "a/../../f", text: "x" }]],
    ["is absolute", [{ name: "/tmp/orrery-escape", text: "x" }]],
    ["links to an absolute path", [{ name: "l", type: "symlink", linkname: "/etc" }]],
    ["links out", [{ name: "a/l", type: "symlink", linkname: "../../f" }]],
    ["hard-links out", [{ name: "l", type: "link", linkname: "../archive" }]],
    [
      "links out through another link",
      [
        { name: "self", type: "symlink", linkname: "." },
        { name: "self/out", type: "symlink", linkname: ".." },
      ],
    ],
    [
      "links out over a name that is a link",
      [
        { name: "deep/self", type: "symlink", linkname: "." },
        { name: "out", type: "symlink", linkname: "deep/../../x" },
      ],
    ],
    [
      "is written through a link that leaves",
      [
        { name: "l", type: "symlink", linkname: ".." },
        { name: "l/f", text: "x" },
      ],
    ],
  ])("refuses an entry that %s", async (_what, items) => {
    expect((await unpacked(await archive(items))).code).toBe("path_outside_data_dir");
    expect(existsSync("/tmp/orrery-escape")).toBe(false);
  });

  it("refuses devices, pipes, and what is no archive", async () => {
    expect((await unpacked(await archive([{ name: "d", type: "character-device" }]))).code).toBe("step_failed");
    expect((await unpacked(await archive([{ name: "p", type: "fifo" }]))).code).toBe("step_failed");
    expect((await unpacked(Buffer.from("no archive".repeat(100)))).code).toBe("step_failed");
    expect((await unpacked(Buffer.from("no gzip"), "tar.gz")).code).toBe("step_failed");
    expect((await unpacked((await archive(release)).subarray(0, 1_600))).code).toBe("step_failed");
  });

  it("never lets any archive of links and files out of its directory", async () => {
    const path = fc
      .array(fc.constantFrom("a", "b", "l", "..", "."), { minLength: 1, maxLength: 4 })
      .map((parts) => parts.join("/"));
    const item: fc.Arbitrary<Item> = fc.oneof(
      fc.record({ name: path, text: fc.constant("x") }),
      fc.record({ name: path, type: fc.constant("symlink" as const), linkname: path }),
      fc.record({ name: path, type: fc.constant("link" as const), linkname: path }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(item, { maxLength: 6 }), async (items) => {
        await unpacked(await archive(items));
      }),
      { numRuns: 80 },
    );
  });
});
