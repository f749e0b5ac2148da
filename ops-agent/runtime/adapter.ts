/** A chain node as it is to be run, with every template rendered. */
export interface ProcessSpec {
  /** Names the node among all that run on the host. */
  readonly nodeId: string;
  /** Absolute, inside the data directory. */
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly dataDir: string;
  readonly stopSignal: "SIGTERM" | "SIGINT" | "SIGQUIT" | "SIGHUP";
  readonly stopGraceMs: number;
}

/** How chain nodes are run on this host. The chain node outlives its agent; there is never a second one. */
export interface RuntimeAdapter {
  /** Prepares what the runtime keeps of the node, for example a unit file. A running node is left alone. */
  install(spec: ProcessSpec): Promise<void>;
  /**
   * Starts the node; one that runs already is a success.
   * @throws process_start_failed
   */
  start(spec: ProcessSpec, signal: AbortSignal): Promise<void>;
  /**
   * Stops the node and all its processes: by its signal, and by force after the grace. One that is not running is a success.
   */
  stop(spec: ProcessSpec, graceMs: number): Promise<void>;
  /** After a reboot of the host: starts a node that was running, and leaves alone one that was stopped on purpose. */
  resume(spec: ProcessSpec, signal: AbortSignal): Promise<void>;
  isRunning(spec: ProcessSpec): Promise<boolean>;
}
