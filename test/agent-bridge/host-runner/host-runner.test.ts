import { existsSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, vi } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { TestRunner } from "./runner.ts";

const hostSchema = z.object({
  providerHostId: z.string(),
  tag: z.string(),
  address: z.string(),
  status: z.string(),
  createdAt: z.number(),
});
const listSchema = z.object({ hosts: z.array(hostSchema) });
const processesSchema = z.object({
  agent: z.object({ pid: z.number().nullable(), alive: z.boolean() }),
  chain: z.array(z.object({ pid: z.number(), alive: z.boolean() })),
});

const request = (tag: string) => ({
  tag,
  region: "local",
  instanceType: "process",
  agent: {
    nodeId: "0190-node",
    generation: 1,
    controlUrl: "http://127.0.0.1:1",
    bridgeUrl: "grpc://127.0.0.1:1",
    controlKeys: [{ keyId: "control-1", publicKey: "c0".repeat(32) }],
    nodeToken: "70".repeat(32),
  },
});

async function createHost(runner: TestRunner, tag: string) {
  const { body } = await runner.call("POST", "/hosts", request(tag));
  const host = hostSchema.parse(body);
  const running = await vi.waitUntil(async () => {
    const found = await processesOf(runner, host.providerHostId);
    return found.agent.alive && found.chain.length === 1 ? found : null;
  }, 10_000);
  return { host, agent: running.agent.pid ?? 0, chain: running.chain[0]?.pid ?? 0 };
}

async function processesOf(runner: TestRunner, id: string) {
  return processesSchema.parse((await runner.call("GET", `/hosts/${id}/processes`)).body);
}

const isAlive = (pid: number) => existsSync(`/proc/${pid}/cwd`) && existsSync(`/proc/${pid}/exe`);

describe("the host runner", () => {
  it("starts an agent in its own directory, and finds the host by its tag", async ({ expect }) => {
    await using runner = await TestRunner.start();
    const { host, agent } = await createHost(runner, "orrery-a-g1");
    expect(host).toMatchObject({ tag: "orrery-a-g1", address: "127.0.0.1", status: "running" });
    expect(isAlive(agent)).toBe(true);
    const found = listSchema.parse((await runner.call("GET", "/hosts?tag=orrery-a-g1")).body);
    expect(found.hosts).toEqual([host]);
    expect(listSchema.parse((await runner.call("GET", "/hosts?tag=orrery-b-g1")).body).hosts).toEqual([]);
  });

  it("refuses a second live host with the same tag, also of two that are asked for at once", async ({ expect }) => {
    await using runner = await TestRunner.start();
    const answers = await Promise.all([1, 2, 3].map(() => runner.call("POST", "/hosts", request("orrery-a-g1"))));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409]);
    expect(answers.find(({ status }) => status === 409)?.body).toMatchObject({ code: "tag_in_use" });
    expect(listSchema.parse((await runner.call("GET", "/hosts")).body).hosts).toHaveLength(1);
  });

  it("ends the agent and the chain node it started when the host is destroyed, and removes the directory", async ({
    expect,
  }) => {
    await using runner = await TestRunner.start();
    const { host, agent, chain } = await createHost(runner, "orrery-a-g1");
    expect((await runner.call("DELETE", `/hosts/${host.providerHostId}`)).status).toBe(204);
    expect([isAlive(agent), isAlive(chain)]).toEqual([false, false]);
    expect(existsSync(join(runner.directory, "hosts", host.providerHostId))).toBe(false);
    expect((await runner.call("DELETE", `/hosts/${host.providerHostId}`)).status).toBe(204);
    expect((await runner.call("POST", "/hosts", request("orrery-a-g1"))).status).toBe(201);
  });

  it("leaves the chain node running when only the agent is killed, and does not start the agent again unasked", async ({
    expect,
  }) => {
    await using runner = await TestRunner.start();
    const { host, agent, chain } = await createHost(runner, "orrery-a-g1");
    const killed = await runner.call("POST", `/hosts/${host.providerHostId}/agent/kill`, { signal: "SIGKILL" });
    expect(killed).toEqual({ status: 200, body: { pid: agent } });
    await runner.killAndRestart();
    expect(await processesOf(runner, host.providerHostId)).toEqual({
      agent: { pid: null, alive: false },
      chain: [{ pid: chain, alive: true }],
    });
    await runner.call("POST", `/hosts/${host.providerHostId}/agent/start`);
    const restarted = await processesOf(runner, host.providerHostId);
    expect(restarted.agent.alive).toBe(true);
    expect(restarted.chain).toEqual([{ pid: chain, alive: true }]);
  });

  it("keeps the directory of a host that is powered off, with nothing running on it", async ({ expect }) => {
    await using runner = await TestRunner.start();
    const { host, agent, chain } = await createHost(runner, "orrery-a-g1");
    const off = await runner.call("POST", `/hosts/${host.providerHostId}/power-off`);
    expect(off).toEqual({ status: 200, body: { ...host, status: "off" } });
    expect([isAlive(agent), isAlive(chain)]).toEqual([false, false]);
    expect(existsSync(join(runner.directory, "hosts", host.providerHostId, "node-token"))).toBe(true);
    await runner.killAndRestart();
    expect(listSchema.parse((await runner.call("GET", "/hosts")).body).hosts).toEqual([{ ...host, status: "off" }]);
    expect((await processesOf(runner, host.providerHostId)).agent.alive).toBe(false);
  });

  it("knows its hosts again after it was killed, and forgets what a create left half done", async ({ expect }) => {
    await using runner = await TestRunner.start();
    const { host, agent } = await createHost(runner, "orrery-a-g1");
    await mkdir(join(runner.directory, "hosts", "local-half-done"));
    await runner.killAndRestart();
    expect(listSchema.parse((await runner.call("GET", "/hosts")).body).hosts).toEqual([host]);
    expect((await processesOf(runner, host.providerHostId)).agent.pid).toBe(agent);
    expect(existsSync(join(runner.directory, "hosts", "local-half-done"))).toBe(false);
  });

  it("boots a real ops-agent, and leaves nothing of it", async ({ expect }) => {
    await using runner = await TestRunner.start(join(import.meta.dirname, "../../../ops-agent/main.ts"));
    const host = hostSchema.parse((await runner.call("POST", "/hosts", request("orrery-a-g1"))).body);
    const directory = join(runner.directory, "hosts", host.providerHostId);
    // It takes its configuration, makes its identity, and asks a control plane that is not there again and again.
    const log = () => readFileSync(join(directory, "agent.log"), "utf8");
    await vi.waitUntil(() => existsSync(join(directory, "agent.log")) && log().includes("not enrolled"), 10_000);
    expect(log()).toContain('"way":"bridge"');
    expect(existsSync(join(directory, "state", "installation.json"))).toBe(true);
    const { agent } = await processesOf(runner, host.providerHostId);
    expect(agent.alive).toBe(true);
    await runner.call("DELETE", `/hosts/${host.providerHostId}`);
    expect(isAlive(agent.pid ?? 0)).toBe(false);
    expect(existsSync(directory)).toBe(false);
  });

  it("writes what its agent must be told, and the settings that all agents share", async ({ expect }) => {
    await using runner = await TestRunner.start(undefined, "bridge: { mode: unary }\ntiming: { return_ms: 5000 }\n");
    const configOf = async (tag: string, bridgeUrl: string | null) => {
      const asked = { ...request(tag), agent: { ...request(tag).agent, bridgeUrl } };
      const { providerHostId } = hostSchema.parse((await runner.call("POST", "/hosts", asked)).body);
      const file = join(runner.directory, "hosts", providerHostId, "agent.yaml");
      return z.record(z.string(), z.unknown()).parse(parse(readFileSync(file, "utf8")));
    };
    expect(await configOf("bridged", "grpc://127.0.0.1:1")).toMatchObject({
      control_url: "http://127.0.0.1:1",
      bridge: { url: "grpc://127.0.0.1:1", mode: "unary" },
      control_keys: [{ key_id: "control-1", public_key: "c0".repeat(32) }],
      timing: { return_ms: 5000 },
    });
    expect(await configOf("direct", null)).not.toHaveProperty("bridge");
  });

  it("refuses what carries no token, no JSON, an unknown field or an unknown signal", async ({ expect }) => {
    await using runner = await TestRunner.start();
    const codeOf = async (call: Promise<{ body: Record<string, unknown> | null }>) => (await call).body?.code;
    expect(await codeOf(runner.call("GET", "/hosts", undefined, "wrong"))).toBe("unauthenticated");
    expect(await codeOf(runner.call("POST", "/hosts", "{"))).toBe("invalid_request");
    expect(await codeOf(runner.call("POST", "/hosts", { ...request("a"), extra: 1 }))).toBe("invalid_request");
    expect(await codeOf(runner.call("POST", "/hosts", request("../escape")))).toBe("invalid_request");
    expect(await codeOf(runner.call("POST", "/hosts/x/agent/kill", { signal: "SIGSEGV" }))).toBe("invalid_request");
    expect(await codeOf(runner.call("POST", "/hosts/x/agent/kill", { signal: "SIGKILL" }))).toBe("not_found");
    expect(await codeOf(runner.call("GET", "/nowhere"))).toBe("not_found");
    expect((await fetch(`${runner.url}/healthz`)).status).toBe(200);
  });
});
