import { status } from "@grpc/grpc-js";
import type { Exchange, ExchangeAnswer } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { Caller } from "./caller.ts";
import { ExchangeSession } from "./exchange.ts";
import { Refusal } from "./refusal.ts";
import type { Sessions } from "./sessions.ts";

/** The sessions by unary calls of this bridge, by their ids. A bridge that was killed knows none: agents open new ones. */
export class Exchanges {
  readonly #sessions: Sessions;
  readonly #open = new Map<string, ExchangeSession>();

  constructor(sessions: Sessions) {
    this.#sessions = sessions;
  }

  /** @throws Refusal */
  async call(caller: Caller, exchange: Exchange | undefined, abandoned: AbortSignal): Promise<ExchangeAnswer> {
    if (exchange === undefined)
      throw new Refusal(status.INVALID_ARGUMENT, "invalid_request", "The exchange is missing.");
    const session = exchange.exchangeId === "" ? this.#begin(caller) : this.#open.get(exchange.exchangeId);
    if (session?.isOf(caller) !== true) throw new Refusal(status.NOT_FOUND, "exchange_lost");
    return session.call(exchange, abandoned);
  }

  #begin(caller: Caller): ExchangeSession {
    const session = this.#sessions.begin(caller, (context) => {
      const started: ExchangeSession = new ExchangeSession(context, () => this.#open.delete(started.id));
      return started;
    });
    this.#open.set(session.id, session);
    return session;
  }
}
