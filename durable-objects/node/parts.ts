import { DEFAULTS } from "../../domain/defaults.ts";
import type { NodeEventBody } from "../../domain/node/node.ts";
import { AlarmClock } from "../shared/alarm-clock.ts";
import { now } from "../shared/clock.ts";
import { assertSize } from "../shared/limits.ts";
import { errorText, log } from "../shared/log.ts";
import { Outbox } from "../shared/outbox.ts";
import { NodeWriter } from "./change.ts";
import { CommandPulse } from "./command-pulse.ts";
import { CommandStore } from "./command-store.ts";
import { LIVENESS, NodeCommands } from "./commands.ts";
import { NodeConnections } from "./connections.ts";
import { NodeContention } from "./contention.ts";
import { ControlVoice } from "./control-voice.ts";
import { NodeHandshake } from "./handshake.ts";
import { NodeInstallations } from "./installations.ts";
import { NodeLifecycle } from "./lifecycle.ts";
import { type SagaEvent, sagaEventKey } from "./saga-events.ts";
import { NodeSession } from "./session.ts";
import { NodeSockets } from "./sockets.ts";
import { NodeStore } from "./store.ts";
import { derivedTimers, type NodeTimerKind, timerHandlers } from "./timers.ts";
import { NodeWatch } from "./watch.ts";

/** The parts of a node's object, put together. */
export type NodeParts = ReturnType<typeof assemble>;

export function assemble(ctx: DurableObjectState, env: Env) {
  const { storage } = ctx;
  const store = new NodeStore(storage.sql);
  const commandStore = new CommandStore(storage.sql);
  const outbox = new Outbox<NodeEventBody>(storage.sql);
  const sockets = new NodeSockets(ctx);
  const watch = new NodeWatch(store, sockets);
  const pokeReader = async (nodeId: string) => {
    const message = { nodeId };
    assertSize("queue message", JSON.stringify(message));
    await env.HEALTH_EVENTS.send(message);
  };
  const writer = new NodeWriter(storage, store, outbox, (nodeId) => {
    // A wake-up that is lost is repeated by the outbox's timer.
    ctx.waitUntil(pokeReader(nodeId).catch((thrown) => log("warn", "queue send failed", { error: errorText(thrown) })));
  });
  const tellSaga = (event: SagaEvent) => {
    clock.schedule("saga_event", sagaEventKey(event.wait), now(), JSON.stringify(event));
  };
  const pulse = new CommandPulse(store, commandStore, watch, { ...LIVENESS, ...DEFAULTS.command });
  const voice = new ControlVoice(env, sockets);
  const commands = new NodeCommands({ store, commands: commandStore, voice, watch, pulse, tellSaga });
  const installations = new NodeInstallations({ store, sockets, voice, watch, commands, tellSaga });
  const session = new NodeSession({ store, sockets, voice, writer, watch, commands, pulse, tellSaga });
  const contention = new NodeContention({ store, sockets, voice, writer, session, installations });
  const handshake = new NodeHandshake({ store, sockets, voice, writer, watch, session, contention, installations });
  const connections = new NodeConnections({ sockets, voice, writer, handshake, contention, session, installations });
  const timerParts = { store, writer, watch, handshake, contention, commands, pulse, outbox, pokeReader, env };
  const clock: AlarmClock<NodeTimerKind> = new AlarmClock(storage, timerHandlers(timerParts), () =>
    derivedTimers(timerParts),
  );
  const nextDue = () => earliest(clock);
  const lifecycle = new NodeLifecycle({ store, writer, watch, commands, installations, nextDue });
  return { store, outbox, sockets, watch, writer, commands, installations, connections, clock, lifecycle };
}

/** What a sweep should see as overdue: neither the heartbeat, which moves with each beat, nor the reading of the outbox. */
function earliest(clock: AlarmClock<NodeTimerKind>): number | null {
  const waits = clock.timers().filter(({ kind }) => kind === "commands" || kind === "saga_event");
  return waits.length === 0 ? null : Math.min(...waits.map(({ dueAt }) => dueAt));
}
