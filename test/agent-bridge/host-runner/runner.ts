import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { z } from "zod";

const ROOT = join(import.meta.dirname, "../../..");
export const RUNNER_TOKEN = "a-token-of-the-runner-for-tests-only";

/** A host runner of its own, as a real process in a directory of its own; disposing destroys its hosts and ends it. */
export class TestRunner implements AsyncDisposable {
  readonly directory: string;
  #process: ChildProcess;
  url: string;

  private constructor(directory: string, process: ChildProcess, url: string) {
    this.directory = directory;
    this.#process = process;
    this.url = url;
  }

  static async start(
    agentEntry = join(import.meta.dirname, "bare-agent.ts"),
    agentSettings = "{}",
  ): Promise<TestRunner> {
    const directory = await mkdtemp(join(tmpdir(), "orrery-runner-"));
    await writeFile(join(directory, "token"), RUNNER_TOKEN, { mode: 0o600 });
    await writeFile(join(directory, "agents.yaml"), agentSettings);
    const { process, url } = await launch(directory, agentEntry);
    return new TestRunner(directory, process, url);
  }

  /** Ends the runner without a chance to tidy up, and starts it again on the same directory. */
  async killAndRestart(agentEntry = join(import.meta.dirname, "bare-agent.ts")): Promise<void> {
    await this.stop("SIGKILL");
    const { process, url } = await launch(this.directory, agentEntry);
    this.#process = process;
    this.url = url;
  }

  async stop(signal: NodeJS.Signals): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, "exit");
    this.#process.kill(signal);
    await ended;
  }

  async call(method: string, path: string, body?: unknown, token = RUNNER_TOKEN) {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      body: text === "" ? null : z.record(z.string(), z.unknown()).parse(JSON.parse(text)),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { hosts } = z
      .object({ hosts: z.array(z.object({ providerHostId: z.string() })) })
      .parse((await this.call("GET", "/hosts")).body);
    for (const { providerHostId } of hosts) await this.call("DELETE", `/hosts/${providerHostId}`);
    await this.stop("SIGTERM");
    await rm(this.directory, { recursive: true, force: true });
  }
}

async function launch(directory: string, agentEntry: string) {
  const args = ["--data-dir", directory, "--port", "0", "--token-file", join(directory, "token")];
  args.push("--agent-settings", join(directory, "agents.yaml"));
  const child = spawn(
    process.execPath,
    [join(ROOT, "agent-bridge/host-runner/main.ts"), ...args, "--agent-entry", agentEntry],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const lines = createInterface({ input: child.stdout });
  const [line] = await once(lines, "line");
  const { url } = z.object({ url: z.url() }).parse(JSON.parse(String(line)));
  return { process: child, url };
}
