import { join } from "node:path";
import type { DataDir } from "./data-dir.ts";
import { keptPort } from "./kept-ports.ts";
import type { PartsWatch } from "./parts.ts";
import type { ProcessGroup } from "./process-group.ts";
import { answerOf, until } from "./ready.ts";

const READY_MS = 15_000;

/** The stack's bridge, which can be killed at any moment. */
export interface StackBridge {
  /** Where agents connect, grpc://. */
  readonly url: string;
  /** Where its health and metrics are. */
  readonly httpUrl: string;
  readonly process: ProcessGroup;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** Starts it again at the same address. */
  start(): Promise<void>;
}

interface BridgeOptions {
  readonly repoDir: string;
  readonly dataDir: DataDir;
  /** The deployment behind it; it need not be up yet. */
  readonly edgeUrl: string;
  readonly signal?: AbortSignal | undefined;
}

/** Where one bridge runs; the same again after a restart, so that agents find it. */
interface BridgePlace extends BridgeOptions {
  readonly port: number;
  readonly httpPort: number;
}

/** Starts the gRPC bridge on ports that it keeps, and has it watched. */
export async function keepBridge(options: BridgeOptions, watch: PartsWatch): Promise<StackBridge> {
  const { path } = options.dataDir;
  const place = { ...options, port: await keptPort(path, "bridge"), httpPort: await keptPort(path, "bridge-http") };
  const start = async () => {
    const group = await startBridge(place);
    watch.add(group);
    return group;
  };
  let running = await start();
  return {
    url: `grpc://127.0.0.1:${place.port}`,
    httpUrl: httpUrlOf(place),
    get process() {
      return running;
    },
    kill: () => {
      watch.remove(running);
      return running.kill();
    },
    async start() {
      running = await start();
    },
  };
}

/** Starts a bridge in a process group of its own and waits until it listens. */
async function startBridge(place: BridgePlace): Promise<ProcessGroup> {
  const group = place.dataDir.start({
    name: "bridge",
    command: process.execPath,
    args: [join(place.repoDir, "agent-bridge/gateway/main.ts")],
    // Whose bridge it is, is seen by where it runs.
    cwd: place.dataDir.logsDir,
    env: {
      EDGE_URL: place.edgeUrl,
      LISTEN: `127.0.0.1:${place.port}`,
      HTTP_LISTEN: `127.0.0.1:${place.httpPort}`,
      LOG_LEVEL: "info",
    },
  });
  const exit = group.ended.then(({ code, signal }) => {
    throw new Error(`The bridge ended while starting (${signal ?? code}); see ${group.logFile}.`);
  });
  try {
    await Promise.race([
      exit,
      until("the bridge to listen", () => answerOf(`${httpUrlOf(place)}/healthz`), {
        timeoutMs: READY_MS,
        signal: place.signal,
      }),
    ]);
  } catch (error) {
    await group.stop();
    throw error;
  }
  return group;
}

function httpUrlOf({ httpPort }: BridgePlace): string {
  return `http://127.0.0.1:${httpPort}`;
}
