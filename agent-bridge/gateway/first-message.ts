import {
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  ServerListenerBuilder,
  status,
} from "@grpc/grpc-js";
import type { BridgeMetrics } from "./metrics.ts";
import { Refusal } from "./refusal.ts";
import type { BridgeLimits } from "./settings.ts";

type EndCall = (refusal: Refusal) => void;

/**
 * Ends unary calls whose message does not come. gRPC itself waits for ever and holds what has come of it, and nobody
 * has been asked yet whether the caller is an agent. Honest calls come whole, so the oldest of too many makes room.
 */
export class FirstMessages {
  readonly #limits: BridgeLimits;
  readonly #metrics: BridgeMetrics;
  /** In the order that they began. */
  readonly #awaited = new Set<EndCall>();

  constructor(limits: BridgeLimits, metrics: BridgeMetrics) {
    this.#limits = limits;
    this.#metrics = metrics;
  }

  /** A stream is not read before the edge has taken it, so it is not looked at here. */
  readonly interceptor: ServerInterceptor = ({ requestStream }, call) =>
    requestStream ? new ServerInterceptingCall(call) : this.#watch(call);

  #watch(call: ServerInterceptingCallInterface): ServerInterceptingCall {
    return new ServerInterceptingCall(call, {
      start: (next) => {
        const came = this.#await((refusal) => call.sendStatus(refusal));
        const listener = new ServerListenerBuilder()
          .withOnReceiveMessage((message, pass) => {
            came();
            pass(message);
          })
          .withOnCancel(came);
        next(listener.build());
      },
    });
  }

  /** Answers what to do when the message has come, or never will. */
  #await(endCall: EndCall): () => void {
    const timer = setTimeout(() => end(late()), this.#limits.openMs);
    const end: EndCall = (refusal) => {
      came();
      this.#metrics.refusals.inc({ code: refusal.reason });
      endCall(refusal);
    };
    const came = () => {
      clearTimeout(timer);
      this.#awaited.delete(end);
    };
    this.#awaited.add(end);
    this.#makeRoom();
    return came;
  }

  #makeRoom(): void {
    if (this.#awaited.size <= this.#limits.awaitedCalls) return;
    const [oldest] = this.#awaited;
    oldest?.(new Refusal(status.RESOURCE_EXHAUSTED, "bridge_overloaded"));
  }
}

function late(): Refusal {
  return new Refusal(status.DEADLINE_EXCEEDED, "malformed_frame", "The call's message did not come.");
}
