import type { Ticket, Transport, TransportHandlers, Way } from "../../ops-agent/transport/way.ts";

/** One session that an agent held. Times are the machine's, in milliseconds since the epoch. */
export interface HeldSession {
  readonly way: string;
  /** When its connection was begun. */
  readonly dialledAt: number;
  readonly welcomedAt: number;
  endedAt: number | null;
  /** Null while it is held, and when the agent ended it itself. */
  reason: string | null;
}

/** What one agent's connections came to. */
export interface LineRecord {
  beatsSent: number;
  beatsAnswered: number;
  /** Beats that were not answered when the next was sent. */
  beatsLate: number;
  /** Connections that ended before a session. */
  failedAttempts: number;
  readonly sessions: HeldSession[];
}

export function newRecord(): LineRecord {
  return { beatsSent: 0, beatsAnswered: 0, beatsLate: 0, failedAttempts: 0, sessions: [] };
}

/** The same way, with a note of everything that counts of what passes on it. */
export function recorded(way: Way, record: LineRecord): Way {
  return {
    name: way.name,
    enrol: (request, signal) => way.enrol(request, signal),
    isReachable: () => way.isReachable(),
    open: (ticket, handlers) => openRecorded(way, record, ticket, handlers),
  };
}

function openRecorded(way: Way, record: LineRecord, ticket: Ticket, handlers: TransportHandlers): Transport {
  const dialledAt = Date.now();
  let session: HeldSession | null = null;
  let unanswered = 0;
  const end = (reason: string | null) => {
    if (session === null) record.failedAttempts += 1;
    else session.endedAt ??= Date.now();
    if (session !== null) session.reason ??= reason;
  };
  const transport = way.open(ticket, {
    onMessage: (message) => {
      if (message.body.case === "pong") {
        record.beatsAnswered += 1;
        unanswered = 0;
      }
      // The first sealed frame of the control plane is its Welcome.
      if (message.body.case === "sealed" && session === null) {
        session = { way: way.name, dialledAt, welcomedAt: Date.now(), endedAt: null, reason: null };
        record.sessions.push(session);
      }
      handlers.onMessage(message);
    },
    onEnd: (ended) => {
      end(ended.reason);
      handlers.onEnd(ended);
    },
  });
  return {
    send: (message) => {
      if (message.body?.case === "ping") {
        record.beatsSent += 1;
        if (unanswered > 0) record.beatsLate += 1;
        unanswered += 1;
      }
      transport.send(message);
    },
    close: () => {
      end(null);
      return transport.close();
    },
    abort: () => {
      if (session !== null && session.endedAt === null) end("the agent gave it up");
      transport.abort();
    },
  };
}
