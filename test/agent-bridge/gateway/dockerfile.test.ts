import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { CommandType } from "../../../proto/gen/orrery/agent/v1/gateway_pb.js";
import { TestHost } from "../../ops-agent/support/agent-process.ts";
import { sendCommand } from "../../ops-agent/support/commands.ts";
import { ControlPeer } from "../../ops-agent/support/control-peer.ts";
import { BridgeProcess } from "./support/bridge-process.ts";
import { only, readCommand, readCopy, readDockerfile, readEnvironment } from "./support/dockerfile.ts";
import { PlainBuild } from "./support/plain-build.ts";

const stages = readDockerfile("agent-bridge/Dockerfile");
const [buildStage, imageStage] = stages;

describe("the image's recipe", () => {
  it("has two stages, of Node.js in the version that the repository pins", () => {
    const major = process.versions.node.split(".")[0];
    expect(stages.map(({ base }) => base)).toEqual([`node:${major}-slim`, `node:${major}-slim`]);
  });

  it("copies nothing from the repository that the ignore file keeps out", () => {
    const admitted = readFileSync("agent-bridge/Dockerfile.dockerignore", "utf8").match(/(?<=^!).+$/gm) ?? [];
    const copies = stages.flatMap(({ instructions }) => instructions).filter(({ name }) => name === "COPY");
    const sources = copies.map(({ text }) => readCopy(text)).flatMap(({ from, sources }) => (from ? [] : sources));
    expect(new Set(sources)).toEqual(new Set(admitted));
    for (const source of sources) expect(existsSync(source), source).toBe(true);
  });

  it("runs as a user that is not root, and without a shell", () => {
    expect(Number(only(imageStage, "USER").split(":")[0])).toBeGreaterThan(0);
    expect(readCommand(only(imageStage, "CMD"))).toEqual(["node", "agent-bridge/gateway/main.ts"]);
    expect(only(imageStage, "EXPOSE").split(" ")).toEqual(["9090", "9091"]);
    expect(imageStage?.instructions.some(({ name }) => name === "RUN")).toBe(false);
  });
});

describe("what its instructions make in a plain directory tree, as a user who owns nothing", () => {
  const build = new PlainBuild();
  const { obstacle } = build;
  let app = "";

  beforeAll(() => {
    if (obstacle !== null) return;
    if (buildStage === undefined || imageStage === undefined) throw new Error("The Dockerfile has not two stages.");
    build.run(buildStage);
    app = build.run(imageStage);
  }, 120_000);
  afterAll(() => build.remove());

  it.skipIf(obstacle !== null)(
    obstacle === null ? "serves an agent, and its health check passes while it does" : `cannot be shown: ${obstacle}`,
    async () => {
      const peer = await ControlPeer.start();
      onTestFinished(() => peer.close());
      const env = {
        ...build.environment,
        ...readEnvironment(only(imageStage, "ENV")),
        EDGE_URL: peer.url,
        LISTEN: "0.0.0.0:0",
        HTTP_LISTEN: `0.0.0.0:${await freePort()}`,
      };
      const [command, ...args] = readCommand(only(imageStage, "CMD"));
      const bridge = await BridgeProcess.start(env, { how: { command, args, cwd: app, ...build.user } });
      const [check, ...checkArgs] = readCommand(only(imageStage, "HEALTHCHECK").replace(/^.*?CMD /, ""));
      const isHealthy = () => spawnSync(check, checkArgs, { ...build.user, cwd: app, env }).status === 0;

      const url = bridge.url.replace("0.0.0.0", "127.0.0.1");
      const host = new TestHost(peer.url, { bridge: { url, mode: "stream" } });
      onTestFinished(() => host.destroy());
      host.start();
      await peer.session();
      sendCommand(peer, { id: "stop", type: CommandType.STOP });
      expect(await peer.ended("stop")).toBe("completed");
      expect(host.output).toContain('"way":"bridge"');
      expect(peer.state.offences).toEqual([]);

      expect(userOf(bridge.pid)).not.toBe(0);
      expect(isHealthy()).toBe(true);
      expect(await bridge.kill("SIGTERM")).toBe(0);
      expect(isHealthy()).toBe(false);
    },
    60_000,
  );

  it.skipIf(obstacle !== null)("has no package that is for development or for other parts", () => {
    for (const name of ["typescript", "vitest", "hono", "drizzle-orm", "@types/node"]) {
      expect(existsSync(join(app, "node_modules", name)), name).toBe(false);
    }
    expect(existsSync(join(app, "node_modules/@grpc/grpc-js"))).toBe(true);
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  return typeof address === "object" && address !== null ? address.port : 0;
}

function userOf(pid: number): number {
  return Number(/^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
}
