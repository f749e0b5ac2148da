import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, it } from "vitest";
import { parseRange } from "../../../agent-bridge/host-runner/artifacts.ts";
import { TestRunner } from "./runner.ts";

const PATH = `/artifacts/anvil/1.7.1/anvil-linux-${process.arch === "arm64" ? "arm64" : "x64"}`;

describe("artifacts", () => {
  it("are served whole with an ETag over their bytes, without a token", async ({ expect }) => {
    await using runner = await TestRunner.start();
    const response = await fetch(runner.url + PATH);
    const bytes = Buffer.from(await response.arrayBuffer());
    expect(response.status).toBe(200);
    expect(bytes.subarray(0, 4)).toEqual(Buffer.from("\x7fELF", "latin1"));
    expect(response.headers.get("etag")).toBe(`"${createHash("sha256").update(bytes).digest("hex")}"`);
    const again = await fetch(runner.url + PATH, { headers: { "if-none-match": response.headers.get("etag") ?? "" } });
    expect(again.status).toBe(304);
  });

  it("go on where an interrupted download stopped, unless the file is another one", async ({ expect }) => {
    await using runner = await TestRunner.start();
    const head = await fetch(runner.url + PATH, { method: "HEAD" });
    const size = Number(head.headers.get("content-length"));
    const etag = head.headers.get("etag") ?? "";
    const rest = await fetch(runner.url + PATH, { headers: { range: `bytes=${size - 10}-`, "if-range": etag } });
    expect(rest.status).toBe(206);
    expect(rest.headers.get("content-range")).toBe(`bytes ${size - 10}-${size - 1}/${size}`);
    expect((await rest.arrayBuffer()).byteLength).toBe(10);
    const changed = await fetch(runner.url + PATH, { headers: { range: "bytes=5-", "if-range": '"another"' } });
    expect(changed.status).toBe(200);
    await changed.body?.cancel();
    expect((await fetch(runner.url + PATH, { headers: { range: `bytes=${size}-` } })).status).toBe(416);
  });

  it("that are not installed are not found", async ({ expect }) => {
    await using runner = await TestRunner.start();
    for (const path of ["/artifacts/anvil/9.9.9/anvil-linux-x64", "/artifacts/../../etc/passwd", "/artifacts/other"]) {
      expect((await fetch(runner.url + path)).status).not.toBe(200);
    }
  });

  it("a range that is understood always lies inside the file", () => {
    fc.assert(
      fc.property(fc.string(), fc.nat(), fc.nat(), fc.integer({ min: 1 }), (noise, a, b, size) => {
        for (const header of [noise, `bytes=${a}-${b}`, `bytes=${a}-`, `bytes=-${b}`]) {
          const range = parseRange(header, size);
          if (range === null || range === "unsatisfiable") continue;
          if (!(0 <= range.start && range.start <= range.end && range.end < size)) return false;
        }
        return true;
      }),
    );
  });
});
