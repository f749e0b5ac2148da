import { Bridge } from "../../../../agent-bridge/gateway/bridge.ts";
import { HealthServer } from "../../../../agent-bridge/gateway/health.ts";
import { createLog } from "../../../../agent-bridge/gateway/log.ts";
import { type BridgeLimits, type BridgeSettings, readSettings } from "../../../../agent-bridge/gateway/settings.ts";

interface TestBridgeOptions extends Partial<Omit<BridgeSettings, "limits">> {
  readonly limits?: Partial<BridgeLimits>;
  readonly environment?: Readonly<Record<string, string>>;
}

/** The bridge within the test's own process, with limits that a test can wait for. */
export class TestBridge {
  readonly bridge: Bridge;
  readonly #health: HealthServer;
  #port = 0;
  #httpPort = 0;

  static async start(edgeUrl: string, options: TestBridgeOptions = {}): Promise<TestBridge> {
    const { limits, environment, ...others } = options;
    const settings = readSettings({
      EDGE_URL: edgeUrl,
      LISTEN: "127.0.0.1:0",
      HTTP_LISTEN: "127.0.0.1:0",
      LOG_LEVEL: "silent",
      ...environment,
    });
    const bridge = new TestBridge({ ...settings, ...others, limits: { ...settings.limits, ...limits } });
    await bridge.#open();
    return bridge;
  }

  private constructor(settings: BridgeSettings) {
    this.bridge = new Bridge(settings, createLog(settings.logLevel));
    this.#health = new HealthServer(this.bridge, settings);
  }

  get url(): string {
    return `grpc://127.0.0.1:${this.#port}`;
  }

  get port(): number {
    return this.#port;
  }

  get httpUrl(): string {
    return `http://127.0.0.1:${this.#httpPort}`;
  }

  /** The value of one line of its metrics, written as Prometheus shows it. */
  async metric(name: string): Promise<number> {
    const line = (await this.bridge.metrics.registry.metrics()).split("\n").find((one) => one.startsWith(`${name} `));
    return line === undefined ? 0 : Number(line.slice(name.length + 1));
  }

  async #open(): Promise<void> {
    [this.#port, this.#httpPort] = await Promise.all([this.bridge.open(), this.#health.open()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.bridge.kill();
    this.#health.close();
  }
}
