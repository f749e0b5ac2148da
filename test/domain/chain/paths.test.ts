import { posix } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { containedLink, containedPath } from "../../../domain/chain/paths.ts";

const parts = fc.array(fc.constantFrom("a", "b", "..", ".", "", "...", "..a", "c d", "\\", "\u0000", "é"), {
  maxLength: 8,
});

describe("containedPath", () => {
  it("accepts plain relative paths and normalises them", () => {
    expect(containedPath("./bin//anvil")).toEqual({ ok: true, path: "bin/anvil" });
    expect(containedPath("a/...")).toEqual({ ok: true, path: "a/..." });
  });

  it.each([
    "/etc/passwd",
    "../x",
    "a/../../x",
    "a/..",
    "",
    ".",
    "a\\..\\b",
    "a\u0000b",
    "a\nb",
    `${"x".repeat(256)}/y`,
  ])("refuses %j", (path) => {
    expect(containedPath(path).ok).toBe(false);
  });

  it("never accepts a path that resolves outside the directory, and accepted paths are stable", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          parts.map((list) => list.join("/")),
          fc.string({ unit: "binary" }),
        ),
        (path) => {
          const result = containedPath(path);
          if (!result.ok) return;
          const resolved = posix.resolve("/data", result.path);
          expect(resolved.startsWith("/data/")).toBe(true);
          expect(resolved).toBe(posix.resolve("/data", path));
          expect(containedPath(result.path)).toEqual(result);
        },
      ),
      { numRuns: 2_000 },
    );
  });
});

describe("containedLink", () => {
  it("accepts links that stay inside and refuses those that leave, as the file system would resolve them", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("l", "d/l", "d/e/l"),
        parts.map((list) => list.join("/")),
        (link, target) => {
          const result = containedLink(link, target);
          const resolved = posix.resolve("/data", posix.dirname(link), target);
          if (result.ok) expect(`${resolved}/`.startsWith("/data/")).toBe(true);
        },
      ),
      { numRuns: 2_000 },
    );
    expect(containedLink("bin/tool", "../lib/tool").ok).toBe(true);
    expect(containedLink("bin/tool", "../../etc").ok).toBe(false);
    expect(containedLink("bin/tool", "../../data/x").ok).toBe(false);
    expect(containedLink("bin/tool", "/etc").ok).toBe(false);
  });
});
