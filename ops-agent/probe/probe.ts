import type { MessageInitShape } from "@bufbuild/protobuf";
import type { NodeStatusCheck } from "../../domain/chain/runtime.ts";
import { type StatusSchema, SyncStatus } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { Logger } from "../log.ts";
import { checkReadiness, type Readiness } from "./check.ts";

/** A node that was known answers nothing this many times before it counts as unknown: one slow answer is no news. */
const MISSES_FOR_UNKNOWN = 3;
const NOT_CONFIGURED: Readiness = { syncStatus: "unknown", height: null, detail: "The node is not configured yet." };

export interface ProbeTarget {
  readonly check: NodeStatusCheck;
  readonly port: number;
  /** By port name. */
  readonly endpoints: Readonly<Record<string, string>>;
}

export interface ProbeOptions {
  readonly everyMs: number;
  /** Told when the sync status or the endpoints changed. */
  readonly onChange: () => void;
  readonly log: Logger;
}

/** Watches the chain node's readiness and keeps the newest finding. */
export class Probe {
  readonly #options: ProbeOptions;
  readonly #abort = new AbortController();
  #target: ProbeTarget | null = null;
  #found: Readiness = NOT_CONFIGURED;
  #misses = 0;
  #timer: NodeJS.Timeout | null = null;
  readonly #first = Promise.withResolvers<void>();

  constructor(options: ProbeOptions) {
    this.#options = options;
  }

  /** Starts to watch a node, or another one than before. */
  watch(target: ProbeTarget): void {
    const changed = JSON.stringify(this.#target?.endpoints) !== JSON.stringify(target.endpoints);
    this.#target = target;
    if (changed) this.#options.onChange();
    if (this.#timer === null) this.#again(0);
  }

  /** Resolves when there is a finding to tell, or nothing to watch. An agent that comes back must not say `unknown` of a node that is well. */
  async firstLook(): Promise<void> {
    if (this.#target !== null) await this.#first.promise;
  }

  /** The newest finding, as Hello and Status carry it. */
  status(): MessageInitShape<typeof StatusSchema> {
    const { syncStatus, height, detail } = this.#found;
    const endpoints = { ...this.#target?.endpoints };
    const status = { syncStatus: WIRE_STATUS[syncStatus], endpoints, detail };
    return height === null ? status : { ...status, height };
  }

  stop(): void {
    this.#abort.abort();
    this.#first.resolve();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #again(afterMs: number): void {
    this.#timer = setTimeout(() => void this.#look(), afterMs);
  }

  async #look(): Promise<void> {
    const target = this.#target;
    if (target === null || this.#abort.signal.aborted) return;
    const found = await checkReadiness(target.check, target.port, this.#abort.signal);
    if (this.#abort.signal.aborted) return;
    if (target === this.#target) this.#take(found);
    this.#first.resolve();
    this.#again(this.#options.everyMs);
  }

  #take(found: Readiness): void {
    this.#misses = found.syncStatus === "unknown" ? this.#misses + 1 : 0;
    if (this.#misses > 0 && this.#misses < MISSES_FOR_UNKNOWN && this.#found.syncStatus !== "unknown") return;
    const changed = found.syncStatus !== this.#found.syncStatus;
    this.#found = found;
    if (!changed) return;
    this.#options.log.info({ sync_status: found.syncStatus, detail: found.detail }, "sync status changed");
    this.#options.onChange();
  }
}

const WIRE_STATUS = {
  unknown: SyncStatus.UNKNOWN,
  syncing: SyncStatus.SYNCING,
  synced: SyncStatus.SYNCED,
} as const;
