import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "vitest";
import { keepBridge, type StackBridge } from "../../dev/bridge.ts";
import { type DataDir, openDataDir } from "../../dev/data-dir.ts";
import { watchParts } from "../../dev/parts.ts";
import { answerOf } from "../../dev/ready.ts";

const repoDir = join(import.meta.dirname, "../..");
/** Nobody is there: a bridge starts before its edge. */
const edgeUrl = "http://127.0.0.1:1";

let dataDir: DataDir;
let bridge: StackBridge;
let watch: ReturnType<typeof watchParts>;

beforeEach(async () => {
  dataDir = await openDataDir(mkdtempSync(join(tmpdir(), "orrery-dev-bridge-")));
  watch = watchParts();
  bridge = await keepBridge({ repoDir, dataDir, edgeUrl }, watch);
});
afterEach(async () => {
  watch.close();
  await bridge.process.stop();
  dataDir.release();
  rmSync(dataDir.path, { recursive: true });
});

describe("the bridge of a development deployment", () => {
  it("lives without its edge, and is not ready", async ({ expect }) => {
    expect((await fetch(`${bridge.httpUrl}/healthz`)).status).toBe(200);
    expect((await fetch(`${bridge.httpUrl}/readyz`)).status).toBe(503);
  });

  it("comes back at the same address after it was killed", async ({ expect }) => {
    const { url, httpUrl, process: killed } = bridge;
    await bridge.kill();
    expect(await answerOf(`${httpUrl}/healthz`)).toBeNull();
    await bridge.start();
    expect([bridge.url, bridge.httpUrl]).toEqual([url, httpUrl]);
    expect(bridge.process.pid).not.toBe(killed.pid);
    expect((await fetch(`${httpUrl}/healthz`)).status).toBe(200);
  });

  it("is missed when it ends by itself, and not when it was killed on purpose", async ({ expect }) => {
    await bridge.kill();
    await bridge.start();
    const broken = watch.broken.then(({ message }) => message);
    process.kill(bridge.process.pid, "SIGKILL");
    expect(await broken).toBe(`The bridge has ended (SIGKILL); see ${bridge.process.logFile}.`);
  });
});
