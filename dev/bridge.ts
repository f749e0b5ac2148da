import { join } from "node:path";
import type { DataDir } from "./data-dir.ts";
import type { ProcessGroup } from "./process-group.ts";
import { answerOf, until } from "./ready.ts";

const READY_MS = 15_000;

/** Where one bridge runs; the same again after a restart, so that agents find it. */
export interface BridgePlace {
  readonly repoDir: string;
  readonly dataDir: DataDir;
  readonly port: number;
  readonly httpPort: number;
  /** The deployment behind it; it need not be up yet. */
  readonly edgeUrl: string;
  readonly signal?: AbortSignal | undefined;
}

export interface RunningBridge {
  /** Where agents connect, grpc://. */
  readonly url: string;
  /** Where its health and metrics are. */
  readonly httpUrl: string;
  readonly process: ProcessGroup;
}

/** Starts the gRPC bridge in a process group of its own and waits until it listens. */
export async function startBridge(place: BridgePlace): Promise<RunningBridge> {
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
  const httpUrl = `http://127.0.0.1:${place.httpPort}`;
  try {
    await Promise.race([
      exit,
      until("the bridge to listen", () => answerOf(`${httpUrl}/healthz`), {
        timeoutMs: READY_MS,
        signal: place.signal,
      }),
    ]);
  } catch (error) {
    await group.stop();
    throw error;
  }
  return { url: `grpc://127.0.0.1:${place.port}`, httpUrl, process: group };
}
