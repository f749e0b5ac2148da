import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { controlSigners } from "../../../domain/identity/control-key.ts";
import { CHAIN_MARK, findByEnvironment, RECIPE_MARK } from "../../../ops-agent/runtime/proc.ts";

export const MASTER_SECRET = "the-master-secret-of-a-test";
const NODE_ID = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0000";
/** Must never be logged. */
export const TOKEN = "5ec2e7".repeat(11).slice(0, 64);

/** A host in a directory of its own, on which a real agent process is started, killed and started again. */
export class TestHost {
  readonly directory = mkdtempSync(join(tmpdir(), "orrery-agent-"));
  readonly dataDir = join(this.directory, "data");
  readonly stateDir = join(this.directory, "state");
  output = "";
  /** For the runtime itself, for example a module that is loaded first. */
  nodeFlags: readonly string[] = [];
  #child: ChildProcess | null = null;

  constructor(controlUrl: string, extra: Readonly<Record<string, unknown>> = {}) {
    writeFileSync(join(this.directory, "token"), `${TOKEN}\n`, { mode: 0o600 });
    const config = {
      control_url: controlUrl,
      node_id: NODE_ID,
      generation: 1,
      token_file: "token",
      state_dir: "state",
      data_dir: "data",
      control_keys: pinnedKeys(1),
      timing: { reconnect_max_ms: 300, probe_ms: 100 },
      ...extra,
    };
    writeFileSync(join(this.directory, "agent.yaml"), stringify(config));
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  start(...flags: readonly string[]): void {
    const child = spawn(process.execPath, [
      ...this.nodeFlags,
      "ops-agent/main.ts",
      "--config",
      join(this.directory, "agent.yaml"),
      ...flags,
    ]);
    child.stdout.on("data", (chunk: Buffer) => {
      this.output += chunk.toString();
    });
    child.stderr.on("data", (chunk: Buffer) => {
      this.output += chunk.toString();
    });
    this.#child = child;
  }

  /** Waits for the agent's own end; answers its exit code. */
  async exited(): Promise<number | null> {
    const child = this.#child;
    if (child === null) return null;
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    return child.exitCode;
  }

  async kill(signal: NodeJS.Signals): Promise<number | null> {
    this.#child?.kill(signal);
    return this.exited();
  }

  /** Pids of the chain node's processes. */
  chainPids(): number[] {
    return findByEnvironment(CHAIN_MARK, this.dataDir);
  }

  /** Pids of programs that a recipe runs. */
  recipePids(): number[] {
    return findByEnvironment(RECIPE_MARK, this.dataDir);
  }

  /** Ends everything and removes the directory. */
  async destroy(): Promise<void> {
    await this.kill("SIGKILL");
    for (const pid of [...this.chainPids(), ...this.recipePids()]) process.kill(pid, "SIGKILL");
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** The control keys of a version as agent.yaml names them. */
function pinnedKeys(version: number): object[] {
  return controlSigners(MASTER_SECRET, version).map(({ keyId, publicKey }) => ({
    key_id: keyId,
    public_key: Buffer.from(publicKey).toString("hex"),
  }));
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}

export function chainFile(name: string): string {
  return readFileSync(`chains/anvil/${name}`, "utf8");
}
