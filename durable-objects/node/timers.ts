import type { Timer } from "../../domain/alarm/next-alarm.ts";
import { DEFAULTS } from "../../domain/defaults.ts";
import type { HeartbeatDecision } from "../../domain/health/heartbeat.ts";
import type { EpochMs, NodeEventBody } from "../../domain/node/node.ts";
import type { TimerHandler } from "../shared/alarm-clock.ts";
import { now } from "../shared/clock.ts";
import type { Outbox } from "../shared/outbox.ts";
import type { NodeWriter } from "./change.ts";
import type { CommandPulse } from "./command-pulse.ts";
import type { NodeCommands } from "./commands.ts";
import type { NodeContention } from "./contention.ts";
import type { NodeHandshake } from "./handshake.ts";
import { sagaEventSchema, sendSagaEvent } from "./saga-events.ts";
import type { NodeStore } from "./store.ts";
import type { NodeWatch } from "./watch.ts";

/** Everything that a node does at a time; stored rows name these kinds, so they are never renamed. */
export type NodeTimerKind = "heartbeat" | "greeting" | "contention" | "commands" | "outbox" | "saga_event";

interface TimerParts {
  readonly store: NodeStore;
  readonly writer: NodeWriter;
  readonly watch: NodeWatch;
  readonly handshake: NodeHandshake;
  readonly contention: NodeContention;
  readonly commands: NodeCommands;
  readonly pulse: CommandPulse;
  readonly outbox: Outbox<NodeEventBody>;
  readonly pokeReader: (nodeId: string) => Promise<void>;
  readonly env: Env;
}

/** Timers that follow from what the node knows, so that they need no row. */
export function derivedTimers(parts: TimerParts): readonly Timer<NodeTimerKind>[] {
  const { store, watch, handshake, contention, pulse, outbox } = parts;
  const node = store.node();
  if (node === null) return [];
  // Hosts that knock at a node which has ended are greeted too, so that they can hear of it.
  const greeting = timer("greeting", handshake.deadline());
  if (node.storageRemoved) return greeting;
  const time = now();
  const oldest = outbox.oldestAt();
  const unread = oldest === null ? null : oldest + DEFAULTS.node.outboxPatienceMs;
  return [
    ...timer("heartbeat", lookAt(watch.decide(node, time), time)),
    ...greeting,
    ...timer("contention", contention.deadline()),
    ...timer("commands", pulse.nextLookAt(time)),
    ...timer("outbox", unread),
  ];
}

export function timerHandlers(parts: TimerParts): Readonly<Record<NodeTimerKind, TimerHandler>> {
  const { writer, watch, handshake, contention, commands, store } = parts;
  return {
    heartbeat: derived(() => writer.commit((change) => watch.evaluate(change))),
    greeting: derived(() => handshake.closeSilentConnections()),
    contention: derived(() => contention.settle()),
    commands: derived(() => writer.commit((change) => commands.tick(change))),
    outbox: {
      source: "derived",
      run: async () => {
        const node = store.node();
        if (node !== null) await parts.pokeReader(node.birth.nodeId);
        return now() + DEFAULTS.node.outboxPatienceMs;
      },
    },
    saga_event: {
      source: "stored",
      run: async ({ payload, attempts }) => {
        await sendSagaEvent(parts.env, sagaEventSchema.parse(JSON.parse(payload ?? "null")), attempts);
        return null;
      },
    },
  };
}

function derived(run: () => void): TimerHandler {
  return {
    source: "derived",
    run: () => {
      run();
      return null;
    },
  };
}

/** A verdict that has not been applied yet is due now. */
function lookAt({ transition, nextLookAt }: HeartbeatDecision, time: EpochMs): EpochMs | null {
  return transition === null ? nextLookAt : time;
}

function timer(kind: NodeTimerKind, dueAt: EpochMs | null): readonly Timer<NodeTimerKind>[] {
  return dueAt === null ? [] : [{ kind, key: "", dueAt }];
}
