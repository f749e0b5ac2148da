import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { errorCodeOf } from "../../../domain/errors.ts";
import { DataDir } from "../../../ops-agent/recipe/data-dir.ts";
import { download } from "../../../ops-agent/recipe/download.ts";
import { testDirectory } from "../support/directory.ts";

const content = randomBytes(300_000);
const checksum = sha256(content);
const BROKEN_AT = 100_000;

function sha256(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A server that gives each request its own answer, and keeps the ranges that were asked for. */
async function served(
  ...answers: readonly Answer[]
): Promise<{ readonly url: string; readonly ranges: (string | undefined)[] }> {
  const ranges: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    const answer = answers[Math.min(ranges.length, answers.length - 1)];
    ranges.push(request.headers.range);
    answer?.(request, response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return { url: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/file`, ranges };
}

/** Sends the rest of the bytes from where the request asks, as a server with ranges does. */
function whole(bytes: Uint8Array, etag = '"v1"'): Answer {
  return (request, response) => {
    const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
    const isRange = start > 0 && request.headers["if-range"] === etag;
    const rest = isRange ? bytes.subarray(start) : bytes;
    response.writeHead(isRange ? 206 : 200, {
      etag,
      "content-length": rest.length,
      ...(isRange ? { "content-range": `bytes ${start}-${bytes.length - 1}/${bytes.length}` } : {}),
    });
    response.end(rest);
  };
}

/** Breaks the connection that `broken` holds, once what it sent has been taken. */
let breakConnection = () => {};

/** Sends the first bytes and no more; the connection is broken when they have arrived. */
function broken(bytes: Uint8Array, etag = '"v1"'): Answer {
  return (_request, response) => {
    response.writeHead(200, { etag, "content-length": bytes.length });
    response.write(bytes.subarray(0, BROKEN_AT));
    breakConnection = () => response.destroy();
  };
}

function status(code: number): Answer {
  return (_request, response) => response.writeHead(code).end();
}

async function fetched(url: string, root: string, wanted = checksum, signal = new AbortController().signal) {
  const progress: number[] = [];
  const dataDir = await DataDir.open(root);
  const error = await download(
    { url, checksum: wanted, to: "bin/file", mode: 0o755 },
    {
      dataDir,
      signal,
      onProgress: (done) => {
        progress.push(done);
        if (done === BROKEN_AT) breakConnection();
      },
      retryMs: 1,
    },
  ).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  const message = error instanceof Error ? error.message : "";
  return { code: error === null ? null : errorCodeOf(error), message, progress };
}

const other = randomBytes(300_000);

function isContinued(request: IncomingMessage): boolean {
  return request.headers.range !== undefined;
}

describe("download", () => {
  it("puts the file in its place with its mode, tells the bytes, and leaves no part behind", async () => {
    const root = testDirectory();
    const { url } = await served(whole(content));
    const { code, progress } = await fetched(url, root);
    expect(code).toBeNull();
    expect(readFileSync(join(root, "bin/file")).equals(content)).toBe(true);
    expect(statSync(join(root, "bin/file")).mode & 0o777).toBe(0o755);
    expect(readdirSync(join(root, "bin"))).toEqual(["file"]);
    expect(progress.at(-1)).toBe(content.length);
  });

  it("asks for nothing when the right file is there, and again when it is not right", async () => {
    const root = testDirectory();
    const { url, ranges } = await served(whole(content));
    await fetched(url, root);
    await fetched(url, root);
    expect(ranges).toHaveLength(1);
    writeFileSync(join(root, "bin/file"), "changed");
    await fetched(url, root);
    expect(ranges).toHaveLength(2);
    expect(readFileSync(join(root, "bin/file")).equals(content)).toBe(true);
  });

  it("goes on where a broken connection stopped", async () => {
    const root = testDirectory();
    const { url, ranges } = await served(broken(content), whole(content));
    expect((await fetched(url, root)).code).toBeNull();
    expect(ranges[0]).toBeUndefined();
    expect(ranges[1]).toBe(`bytes=${BROKEN_AT}-`);
    expect(readFileSync(join(root, "bin/file")).equals(content)).toBe(true);
  });

  it("starts anew when the content changed meanwhile", async () => {
    const root = testDirectory();
    const old = randomBytes(300_000);
    const { url } = await served(broken(old, '"old"'), whole(content, '"new"'));
    expect((await fetched(url, root)).code).toBeNull();
    expect(readFileSync(join(root, "bin/file")).equals(content)).toBe(true);
  });

  it("gives a mixture one clean try when the server's validator lied", async () => {
    const root = testDirectory();
    const { url, ranges } = await served(broken(randomBytes(300_000)), whole(content), whole(content));
    expect((await fetched(url, root)).code).toBeNull();
    expect(ranges).toHaveLength(3);
    expect(readFileSync(join(root, "bin/file")).equals(content)).toBe(true);
  });

  it("retries what may pass, and not what will not", async () => {
    const passing = await served(status(503), status(429), whole(content));
    expect((await fetched(passing.url, testDirectory())).code).toBeNull();
    const missing = await served(status(404));
    expect((await fetched(missing.url, testDirectory())).code).toBe("download_failed");
    expect(missing.ranges).toHaveLength(1);
    const down = await served(status(500));
    expect((await fetched(down.url, testDirectory())).code).toBe("download_failed");
    expect(down.ranges).toHaveLength(5);
    expect((await fetched("http://127.0.0.1:1/", testDirectory())).code).toBe("download_failed");
  });

  it.each<[string, (request: IncomingMessage) => Answer]>([
    ["breaks at the same place for ever", () => broken(content)],
    ["does not go on where it broke, for ever", (request) => (isContinued(request) ? status(416) : broken(content))],
    ["goes on with other bytes for ever", (request) => (isContinued(request) ? whole(other) : broken(content))],
  ])("gives up on a server that %s, and says once why", async (_how, answerTo) => {
    const { url, ranges } = await served((request, response) => answerTo(request)(request, response));
    const { code, message } = await fetched(url, testDirectory());
    expect(code).toBe("download_failed");
    expect(ranges.length).toBeLessThan(15);
    expect(message.split(url)).toHaveLength(2);
  });

  it("never gives the name to a file with another checksum", async () => {
    const root = testDirectory();
    const { url, ranges } = await served(whole(content));
    expect((await fetched(url, root, sha256(Buffer.from("other")))).code).toBe("checksum_mismatch");
    expect(readdirSync(join(root, "bin"))).not.toContain("file");
    expect(ranges).toHaveLength(1);
  });

  it("refuses what is no checksum and no http address", async () => {
    expect((await fetched("http://127.0.0.1:1/", testDirectory(), "sha256:12")).code).toBe("recipe_invalid");
    expect((await fetched("file:///etc/passwd", testDirectory())).code).toBe("recipe_invalid");
  });

  it("stops at once when it is cancelled, and the next goes on from the part", async () => {
    const root = testDirectory();
    const abort = new AbortController();
    const hanging = await served((_request, response) => {
      response.writeHead(200, { etag: '"v1"', "content-length": content.length });
      response.write(content.subarray(0, 100_000));
    });
    const dataDir = await DataDir.open(root);
    const onProgress = (done: number) => {
      if (done >= 100_000) abort.abort(new Error("cancelled"));
    };
    const wanted = { url: hanging.url, checksum, to: "f", mode: 0o644 };
    await expect(download(wanted, { dataDir, signal: abort.signal, onProgress, retryMs: 1 })).rejects.toThrow(
      "cancelled",
    );
    expect(statSync(join(root, ".f.part")).size).toBe(100_000);
  });
});
