import { DEFAULTS } from "../../domain/defaults.ts";
import { isErrorCode, toErrorData } from "../../domain/errors.ts";
import type { ControlKey } from "../../domain/identity/control-key.ts";
import { isTampering, type TamperingCode } from "../../domain/identity/tampering.ts";
import type {
  CancelCommand,
  Command,
  ControlMessage,
  Goodbye,
  Sealed,
  SignedChallenge,
  Welcome,
} from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { Logger } from "../log.ts";
import type { Transport, TransportEnd, TransportHandlers } from "../transport/way.ts";
import type { Handshake } from "./handshake.ts";
import type { AgentBodyInit, ControlWord, OpeningInit } from "./messages.ts";
import { SealedChannel } from "./sealing.ts";

/** Long enough for a connection, a handshake, and the wait while the edge asks the session that it has. */
const WELCOME_MS = 2 * DEFAULTS.bridge.openMs + DEFAULTS.agent.holderAnswerMs;
const DEAD_AFTER_BEATS = 3;

type Ending =
  | ({ readonly kind: "lost" } & TransportEnd)
  | { readonly kind: "closed"; readonly reason: string }
  | { readonly kind: "tampered"; readonly code: TamperingCode; readonly reason: string }
  | { readonly kind: "goodbye"; readonly goodbye: Goodbye };
/** How a session ended. A goodbye is believed: the control plane said it. */
export type SessionEnd = { readonly welcomed: boolean } & Ending;

export interface SessionOptions {
  readonly connect: (handlers: TransportHandlers) => Transport;
  readonly handshake: Handshake;
  readonly opening: () => OpeningInit;
  readonly runningIds: () => readonly string[];
  readonly onCommand: (command: Command) => void;
  readonly onCancel: (cancel: CancelCommand) => void;
  readonly onWelcome: (welcome: Welcome) => void;
  readonly log: Logger;
}

/**
 * One session with the node's object: Hello, Challenge, Proof, Welcome, then beats until either side goes.
 * Whatever is not authentically the control plane's has no effect but the session's end.
 * A peer that answers nothing over three beats is dead, whatever the connection says.
 */
export class Session {
  readonly ended: Promise<SessionEnd>;
  readonly #options: SessionOptions;
  readonly #transport: Transport;
  readonly #resolve: (end: SessionEnd) => void;
  #channel: SealedChannel | null = null;
  #controlKey: ControlKey | null = null;
  #welcomed = false;
  #isEnded = false;
  /** Beats since anything was heard. Beats, not time: when it was we who slept, the answers wait in the connection. */
  #unanswered = 0;
  #timer: NodeJS.Timeout;

  constructor(options: SessionOptions) {
    this.#options = options;
    const { promise, resolve } = Promise.withResolvers<SessionEnd>();
    this.ended = promise;
    this.#resolve = resolve;
    this.#timer = setTimeout(() => this.#lose("no Welcome came in time"), WELCOME_MS);
    this.#transport = options.connect({
      onMessage: (message) => this.#receive(message),
      onEnd: (end) => this.#finish({ kind: "lost", ...end }),
    });
    this.#transport.send({ body: { case: "hello", value: options.handshake.hello } });
  }

  /** Says something when there is a welcomed session; what is lost is asked for again by redelivery. */
  send(body: AgentBodyInit): void {
    if (!this.#welcomed || this.#isEnded || this.#channel === null) return;
    this.#transport.send(this.#channel.seal(body));
  }

  /** Ends the session from our side, once what was said before has gone out. */
  async close(reason: string): Promise<void> {
    if (this.#isEnded) return;
    const closed = this.#transport.close();
    this.#stop();
    await closed;
    this.#resolve({ kind: "closed", welcomed: this.#welcomed, reason });
  }

  #receive(message: ControlMessage): void {
    if (this.#isEnded) return;
    this.#unanswered = 0;
    try {
      this.#take(message);
    } catch (error) {
      const { code, message: reason } = toErrorData(error);
      if (isTampering(code)) {
        this.#finish({ kind: "tampered", code, reason });
        return;
      }
      this.#options.log.error({ err: error }, "a frame could not be taken");
      this.#lose("a frame could not be taken");
    }
  }

  #take({ body }: ControlMessage): void {
    if (body.case === "challenge") this.#prove(body.value);
    else if (body.case === "sealed") this.#open(body.value);
    else if (body.case === "goodbye") this.#leave(this.#options.handshake.refusal(body.value));
  }

  /** Only the first challenge is answered: the session's keys are made once. */
  #prove(challenge: SignedChallenge): void {
    if (this.#channel !== null) return;
    const { opening, signature, keys, controlKey } = this.#options.handshake.prove(challenge, this.#options.opening());
    this.#channel = new SealedChannel(keys);
    this.#controlKey = controlKey;
    this.#transport.send({ body: { case: "proof", value: { opening, signature } } });
  }

  #open(sealed: Sealed): void {
    if (this.#channel === null) {
      this.#finish({ kind: "tampered", code: "frame_out_of_order", reason: "A sealed frame came before a challenge." });
      return;
    }
    const word = this.#channel.open(sealed);
    if (word === null) this.#options.log.warn("ignored a message that this agent does not know");
    else this.#hear(word);
  }

  #hear(word: ControlWord): void {
    if (word.case === "goodbye") this.#leave(word.value);
    else if (word.case === "welcome") this.#welcome(word.value);
    else if (this.#welcomed && this.#controlKey !== null) this.#obey(word, this.#controlKey);
    else this.#lose("the session did not begin with a Welcome");
  }

  #obey(word: ControlWord, controlKey: ControlKey): void {
    if (word.case === "command") this.#options.onCommand(this.#options.handshake.command(word.value, controlKey));
    if (word.case === "cancelCommand") this.#options.onCancel(word.value);
    if (word.case === "probe") this.send({ body: { case: "alive", value: { question: word.value.question } } });
  }

  #welcome(welcome: Welcome): void {
    if (this.#welcomed) return;
    this.#welcomed = true;
    clearTimeout(this.#timer);
    const beatMs = welcome.beatIntervalMs > 0 ? welcome.beatIntervalMs : DEFAULTS.heartbeat.beatMs;
    this.#timer = setInterval(() => this.#beat(), beatMs);
    this.#options.onWelcome(welcome);
    this.#beat();
  }

  /** A Ping goes along with a full beat: it is the only frame that the edge answers without waking the node's object. */
  #beat(): void {
    if (this.#unanswered >= DEAD_AFTER_BEATS) {
      this.#lose(`nothing heard for ${DEAD_AFTER_BEATS} beats`);
      return;
    }
    this.#unanswered += 1;
    const runningCommandIds = [...this.#options.runningIds()];
    if (runningCommandIds.length > 0) this.send({ body: { case: "beat", value: { runningCommandIds } } });
    if (!this.#isEnded) this.#transport.send({ body: { case: "ping", value: {} } });
  }

  /**
   * The control plane says it, and still it need not be about us: what it calls forged or malformed we have not sent so.
   * Whoever sent it in our name would keep us from the other ways by genuine refusals.
   */
  #leave(goodbye: Goodbye): void {
    const { code, message } = goodbye;
    if (isErrorCode(code) && isTampering(code)) {
      this.#finish({ kind: "tampered", code, reason: `The control plane refused what was not sent so: ${message}` });
      return;
    }
    this.#finish({ kind: "goodbye", goodbye });
  }

  #lose(reason: string): void {
    this.#finish({ kind: "lost", reason, reconnectAfterMs: null });
  }

  #finish(ending: Ending): void {
    if (this.#isEnded) return;
    this.#stop();
    this.#transport.abort();
    this.#resolve({ ...ending, welcomed: this.#welcomed });
  }

  #stop(): void {
    this.#isEnded = true;
    clearTimeout(this.#timer);
    this.#channel?.forget();
  }
}
