import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { z } from "zod";

/** The product's bridge as a real process, in front of an edge. */
export class BridgeProcess {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  /** @param url of a bridge that was there before, whose address the new one takes */
  static async start(edgeUrl: string, url = "grpc://127.0.0.1:0"): Promise<BridgeProcess> {
    const env = {
      EDGE_URL: edgeUrl,
      LISTEN: new URL(url).host,
      HTTP_LISTEN: "127.0.0.1:0",
      DRAIN_MS: "200",
      LOG_LEVEL: "silent",
    };
    const child = spawn(process.execPath, ["agent-bridge/gateway/main.ts"], {
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = await Promise.race([once(createInterface({ input: child.stdout }), "line"), endOf(child)]);
    return new BridgeProcess(z.object({ url: z.string() }).parse(JSON.parse(String(line))).url, child);
  }

  async kill(signal: NodeJS.Signals): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill(signal);
    await ended;
  }
}

async function endOf(child: ChildProcess): Promise<never> {
  const [code] = await once(child, "exit");
  throw new Error(`The bridge ended with ${code} before it listened.`);
}
