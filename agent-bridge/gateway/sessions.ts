import { status } from "@grpc/grpc-js";
import type { Caller } from "./caller.ts";
import type { Logger } from "./log.ts";
import type { BridgeMetrics, SessionMode } from "./metrics.ts";
import { Refusal } from "./refusal.ts";
import type { BridgeLimits } from "./settings.ts";

/** A session that passes this bridge, whichever way the agent calls. */
export interface OpenSession {
  readonly mode: SessionMode;
  readonly bufferedBytes: number;
  /** Whence it is called, once the edge has taken it. */
  readonly peer: string | null;
  end(refusal: Refusal): void;
}

/** What a session has of the bridge around it. */
export interface SessionContext {
  readonly caller: Caller;
  readonly edgeUrl: string;
  readonly limits: BridgeLimits;
  readonly metrics: BridgeMetrics;
  refused(refusal: Refusal): void;
  closed(session: OpenSession): void;
}

interface SessionsOptions {
  readonly edgeUrl: string;
  readonly limits: BridgeLimits;
  readonly sessionsMax: number;
  readonly metrics: BridgeMetrics;
  readonly log: Logger;
}

/** All sessions of this bridge: how many there may be, and how they all end. */
export class Sessions {
  readonly #options: SessionsOptions;
  readonly #open = new Set<OpenSession>();
  #isDraining = false;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#open.size;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  bufferedBytes(): number {
    let bytes = 0;
    for (const session of this.#open) bytes += session.bufferedBytes;
    return bytes;
  }

  /** Whence all sessions are called that the edge has taken. */
  peers(): Set<string> {
    const peers = new Set<string>();
    for (const { peer } of this.#open) if (peer !== null) peers.add(peer);
    return peers;
  }

  /** @throws Refusal when no further session may begin here */
  begin<S extends OpenSession>(caller: Caller, start: (context: SessionContext) => S): S {
    this.requireNotDraining();
    if (this.#open.size >= this.#options.sessionsMax) throw new Refusal(status.RESOURCE_EXHAUSTED, "bridge_overloaded");
    const { edgeUrl, limits, metrics, log } = this.#options;
    const session = start({
      caller,
      edgeUrl,
      limits,
      metrics,
      refused: (refusal) => {
        metrics.refusals.inc({ code: refusal.reason });
        log.info({ node_id: caller.nodeId, code: refusal.reason }, "session ended");
      },
      closed: (ended) => {
        if (this.#open.delete(ended)) metrics.sessions.dec({ mode: ended.mode });
      },
    });
    this.#open.add(session);
    metrics.sessions.inc({ mode: session.mode });
    metrics.opens.inc({ mode: session.mode });
    return session;
  }

  /** @throws Refusal */
  requireNotDraining(): void {
    if (this.#isDraining) throw new Refusal(status.UNAVAILABLE, "bridge_draining");
  }

  /**
   * Takes no further session, and ends those that there are with a hint of when to come back.
   * @param hintMs for each session, in [0, drainMs): spread, so that the next bridge is not met by all at once
   */
  drain(hintMs: () => number): void {
    this.#isDraining = true;
    for (const session of [...this.#open]) {
      session.end(new Refusal(status.UNAVAILABLE, "bridge_draining", undefined, Math.floor(hintMs())));
    }
  }
}
