import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { DEFAULTS } from "../../domain/defaults.ts";
import { toErrorData } from "../../domain/errors.ts";
import { isTampering } from "../../domain/identity/tampering.ts";
import type { CancelCommand, Command } from "../../proto/gen/orrery/agent/v1/gateway_pb.js";
import type { Logger } from "../log.ts";
import type { AgentIdentity } from "../state/identity.ts";
import type { Trust } from "../state/trust.ts";
import { lost, ticketFor, type Way } from "../transport/way.ts";
import { reconnectDelayMs, spreadDelayMs } from "./backoff.ts";
import { enrolmentRequest, enrolmentResult } from "./enrol.ts";
import { Handshake } from "./handshake.ts";
import type { AgentBodyInit, OpeningInit } from "./messages.ts";
import { Session, type SessionEnd } from "./session.ts";
import { TamperingReports } from "./tampering.ts";
import { type Attempt, WayChoice } from "./way-choice.ts";

/** A timer cannot be set to more than some 24 days. */
const WAIT_MAX_MS = 24 * 3_600_000;

export interface KeeperOptions {
  readonly nodeId: string;
  readonly generation: number;
  readonly identity: AgentIdentity;
  readonly trust: Trust;
  /** In the order of preference; one at least. */
  readonly ways: readonly [Way, ...Way[]];
  readonly nodeToken: () => string;
  readonly opening: () => OpeningInit;
  readonly runningIds: () => readonly string[];
  readonly onCommand: (command: Command) => void;
  readonly onCancel: (cancel: CancelCommand) => void;
  readonly reconnectMaxMs: number;
  readonly returnMs: number;
  readonly log: Logger;
}

/** The control plane does not want this installation any more: it said so itself. */
export interface Refusal {
  readonly code: string;
  readonly message: string;
}

/** Keeps the agent in session with its node's object: enrols, connects, and comes back by whichever way leads there. */
export class SessionKeeper {
  readonly #options: KeeperOptions;
  readonly #choice: WayChoice;
  readonly #reports = new TamperingReports();
  readonly #stopped = new AbortController();
  #session: Session | null = null;
  /** Tries since the last good session. */
  #failures = 0;
  /** Whether the latest session ended because its epoch was an old one. */
  #wasBehind = false;
  /** Whether a refusal's wait is not meant for us. */
  #isSoonBack = false;

  constructor(options: KeeperOptions) {
    this.#options = options;
    const { ways, returnMs } = options;
    const { failuresPerWay } = DEFAULTS.agent;
    this.#choice = new WayChoice({ ways: ways.length, failuresPerWay, returnMs });
  }

  /** Holds sessions, one after the other, until the agent is stopped (null) or refused for good. */
  async run(): Promise<Refusal | null> {
    while (!this.#stopped.signal.aborted) {
      const way = this.#way();
      const since = performance.now();
      const end = await this.#tryOn(way);
      if (this.#stopped.signal.aborted) break;
      if (end.kind === "goodbye" && end.goodbye.reconnectAfterMs === undefined) return end.goodbye;
      this.#count(way, end, performance.now() - since);
      await this.#pause(end);
    }
    return null;
  }

  send(body: AgentBodyInit): void {
    this.#session?.send(body);
  }

  /** Ends the session, once what was said in it has gone out, and holds no more. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#session?.close("the agent stops");
  }

  #way(): Way {
    const { ways } = this.#options;
    return ways[this.#choice.index] ?? ways[0];
  }

  /** One session, or why there could be none: a disk that is full for a while must not end the agent. */
  async #tryOn(way: Way): Promise<SessionEnd> {
    try {
      return (await this.#enrol(way)) ?? (await this.#converse(way));
    } catch (error) {
      this.#options.log.error({ err: error, way: way.name }, "no session could be started");
      return { kind: "lost", welcomed: false, ...lost("no session could be started") };
    }
  }

  /** Makes the installation's keys known unless they are; why that failed, or null. */
  async #enrol(way: Way): Promise<SessionEnd | null> {
    const { identity, trust, nodeId, generation, log } = this.#options;
    const { installationId, signingKey, sealingKey } = identity;
    if (trust.isEnrolled({ nodeId, generation, installationId })) return null;
    const nodeToken = this.#options.nodeToken();
    const request = enrolmentRequest(nodeToken, { nodeId, generation, installationId, signingKey, sealingKey });
    try {
      const result = enrolmentResult(nodeToken, request, await way.enrol(request, this.#stopped.signal));
      if (result.case === "refused") return this.#log({ kind: "goodbye", welcomed: false, goodbye: result.value }, way);
      // Keys that are pinned already come from whoever set the host up, and are not replaced on the token's word alone.
      if (trust.controlKeys().length === 0) trust.believe(result.value.controlKeys);
      trust.rememberEnrolment({ nodeId, generation, installationId });
      log.info({ way: way.name, installation_id: installationId }, "enrolled");
      return null;
    } catch (error) {
      const { code, message } = toErrorData(error);
      if (isTampering(code)) return this.#log({ kind: "tampered", welcomed: false, code, reason: message }, way);
      const reason = error instanceof Error ? error.message : String(error);
      return this.#log({ kind: "lost", welcomed: false, ...lost(`not enrolled: ${reason}`) }, way);
    }
  }

  /** One session, from the raised epoch to its end. */
  async #converse(way: Way): Promise<SessionEnd> {
    if (this.#stopped.signal.aborted) return { kind: "closed", welcomed: false, reason: "the agent stops" };
    const { identity, trust, nodeId, generation, opening, runningIds, onCommand, onCancel, log } = this.#options;
    const { installationId } = identity;
    const subject = { nodeId, generation, installationId, sessionEpoch: identity.raiseEpoch() };
    const handshake = new Handshake({
      identity,
      controlKeys: trust.controlKeys(),
      subject,
      secretKey: randomBytes(32),
    });
    const ticket = ticketFor(this.#options.nodeToken(), subject, (message) => identity.sign(message));
    const session = new Session({
      connect: (handlers) => way.open(ticket, handlers),
      handshake,
      opening,
      runningIds,
      onCommand,
      onCancel,
      onWelcome: ({ controlKeys }) => {
        log.info({ way: way.name, session_epoch: subject.sessionEpoch }, "session established");
        trust.believe(controlKeys);
        this.#reportTampering(session);
      },
      log,
    });
    this.#session = session;
    const cancelReturn = this.#returnLater(session);
    const end = await session.ended;
    cancelReturn();
    this.#session = null;
    this.#learn(end);
    return this.#log(end, way);
  }

  /**
   * Takes up what a believed refusal says of our state. Its wait is for clones: who only had an old epoch is told so
   * once, and may come at once with a higher one.
   */
  #learn(end: SessionEnd): void {
    const { identity, trust } = this.#options;
    const { code, sessionEpoch } = end.kind === "goodbye" ? end.goodbye : {};
    if (code === "agent_not_enrolled") trust.forgetEnrolment();
    const isBehind = code === "agent_conflict" && sessionEpoch !== undefined && identity.continueAbove(sessionEpoch);
    this.#isSoonBack = isBehind && !this.#wasBehind;
    this.#wasBehind = isBehind;
  }

  #reportTampering(session: Session): void {
    for (const value of this.#reports.all()) session.send({ body: { case: "tampering", value: { ...value } } });
    this.#reports.clear();
  }

  /** On another than the first way, looks at the first from time to time and leaves for it when it answers. */
  #returnLater(session: Session): () => void {
    const inMs = this.#choice.returnInMs(performance.now());
    if (inMs === null) return () => undefined;
    const gone = new AbortController();
    void this.#returnWhenReachable(session, inMs, gone.signal);
    return () => gone.abort();
  }

  async #returnWhenReachable(session: Session, inMs: number, gone: AbortSignal): Promise<void> {
    await delay(inMs, undefined, { signal: gone, ref: false }).catch(() => undefined);
    while (!gone.aborted) {
      const isReachable = await this.#options.ways[0].isReachable();
      if (gone.aborted) return;
      if (isReachable) {
        this.#choice.toFirst();
        return session.close("the first way can be taken again");
      }
      this.#choice.postponeReturn(performance.now());
      await delay(this.#options.returnMs, undefined, { signal: gone, ref: false }).catch(() => undefined);
    }
  }

  #count(way: Way, end: SessionEnd, lastedMs: number): void {
    const isGood = end.welcomed && lastedMs > DEFAULTS.heartbeat.beatMs;
    this.#failures = isGood ? 0 : this.#failures + 1;
    if (end.kind === "tampered") this.#reports.add({ code: end.code, message: end.reason, transport: way.name });
    // The agent that leaves a way by itself has chosen the next one already.
    if (end.kind === "closed") return;
    this.#choice.ended(attemptOf(end, isGood), performance.now());
  }

  async #pause(end: SessionEnd): Promise<void> {
    const { reconnectMaxMs } = this.#options;
    // A bridge's hint is spread already.
    const isSpread = end.kind === "lost" && end.welcomed && end.reconnectAfterMs === null;
    const jitter = isSpread
      ? spreadDelayMs(reconnectMaxMs, Math.random())
      : reconnectDelayMs(this.#failures, reconnectMaxMs, Math.random());
    await delay(this.#askedMs(end) + jitter, undefined, { signal: this.#stopped.signal }).catch(() => undefined);
  }

  /** How long the other side asks to stay away. A bridge's word is a hint, so it counts up to our own maximum. */
  #askedMs(end: SessionEnd): number {
    if (end.kind === "lost") return Math.min(end.reconnectAfterMs ?? 0, this.#options.reconnectMaxMs);
    if (end.kind !== "goodbye" || this.#isSoonBack) return 0;
    return Math.min(end.goodbye.reconnectAfterMs ?? 0, WAIT_MAX_MS);
  }

  /** Every end is named in the log, with its way. */
  #log(end: SessionEnd, way: Way): SessionEnd {
    const { log } = this.#options;
    if (end.kind === "goodbye") {
      const { code, message, reconnectAfterMs = null } = end.goodbye;
      log.warn({ way: way.name, code, reason: message, reconnect_after_ms: reconnectAfterMs }, "refused");
    } else if (end.kind === "tampered") {
      log.error({ way: way.name, code: end.code, reason: end.reason }, "somebody tampers with this way");
    } else {
      log.info({ way: way.name, reason: end.reason, welcomed: end.welcomed }, "session ended");
    }
    return end;
  }
}

/** A session that is over within a beat says something against its way, also where a refusal ended it: the other way costs nothing. */
function attemptOf(end: SessionEnd, isGood: boolean): Attempt {
  if (end.kind === "tampered") return "tampered";
  return isGood ? "held" : "failed";
}
