/** Every number of DESIGN section 14 that is in use, in one place. Durations are milliseconds unless named otherwise. */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export const DEFAULTS = {
  heartbeat: {
    beatMs: 10 * SECOND,
    firstFailureMs: 60 * SECOND,
    nextFailureMs: 30 * SECOND,
    failuresForDown: 3,
  },
  /** A degraded node recovers after this long alive with good health. */
  degradedRecoveryMs: 60 * SECOND,
  provisioning: {
    agentReadyMs: 5 * MINUTE,
    configureTtlMs: 5 * MINUTE,
    /** The longest that a saga waits for a command that still makes progress. */
    commandWaitMs: 24 * HOUR,
    /** How long a re-enrolment waits for the operator to rebuild the host and start its agent. */
    rebuiltAgentMs: DAY,
    /** How often it looks for the agent, should the word of its arrival be lost. */
    rebuiltRoundMs: HOUR,
    /** How often a command is sent that a restart of the agent or its host cut off. */
    commandRounds: 3,
  },
  command: {
    ackWaitMs: 30 * SECOND,
    ttlMs: 5 * MINUTE,
    livenessChecks: 3,
    livenessCheckMs: 100,
    graceMs: 60 * SECOND,
    agentStallChecks: 5,
    agentStallCheckMs: 30 * SECOND,
    objectStallReports: 20,
  },
  agent: {
    reconnectMaxMs: 30 * SECOND,
    maxFrameBytes: 256 * 1024,
    protocolVersion: 2,
    /** Version 1 knew no installation keys, so it is not spoken any more. */
    oldestProtocolVersion: 2,
    /** A connection that has not proved who it is by then is closed. */
    helloMs: 10 * SECOND,
    /** What a Hello and an Opening may measure: a socket's attachment keeps both while the session's holder is asked. */
    helloBytes: 2 * 1024,
    openingBytes: 8 * 1024,
    /** Connections of one node that may be on their way to a session; the oldest makes room. */
    greetingConnections: 4,
    /** How long the holder of a session has to answer when another connection claims to be it. */
    holderAnswerMs: 5 * SECOND,
    /** A clone, or an agent from an old backup, may knock again after this long. */
    conflictRetryMs: MINUTE,
    /** Agents that lost their control plane at one moment return spread over this long. */
    reconnectSpreadMs: 10 * SECOND,
    /** Sessions that fail in a row on one way (bridge, direct) before the agent takes the next. */
    failuresPerWay: 2,
    /** On any but its first way, the agent tries the first again after this long. */
    returnMs: 10 * MINUTE,
    /** Frames beyond the answers to commands: an agent of ours sends at most some three a second. */
    framesPerWindow: 600,
    frameWindowMs: MINUTE,
    probeMs: 2 * SECOND,
  },
  bridge: {
    sessionsMax: 20_000,
    connectionsMax: 25_000,
    /** Calls at once by one connection; an agent has a connection of its own and makes two. */
    streamsPerConnection: 32,
    /** A connection that brings no session which the edge has taken is closed after this long. */
    connectionIdleMs: MINUTE,
    /** Unary calls whose message has not come yet: each may hold as much as a frame. */
    awaitedCalls: 256,
    /** Enrolments at once: anyone may ask for one, and each asks the edge. */
    enrolments: 256,
    /** A connection is asked this often whether its peer lives. */
    keepaliveMs: 30 * SECOND,
    /** What one agent's session may hold in the bridge before the faster side is made to wait. */
    bufferBytes: 512 * 1024,
    /** The edge has this long to take a connection, the agent to send its first message. */
    openMs: 10 * SECOND,
    /** A session by unary calls that nobody calls for this long has ended: its agent always has a call under way. */
    exchangeIdleMs: 15 * SECOND,
    /** The longest that a unary call is held open for an answer. */
    exchangeWaitMs: 20 * SECOND,
    /** On SIGTERM agents are told to reconnect, spread over this long; then the bridge ends. */
    drainMs: 10 * SECOND,
  },
  node: {
    /** A node without news is touched this often by the sweep, so that a lost alarm is found. */
    touchMs: HOUR,
    /** A derived or stored timer counts as overdue to the sweep after this long. */
    overdueMs: MINUTE,
    outboxBatch: 200,
    /** Nodes that one sweep touches for each reason, and how many of them at once. */
    touchBatch: 200,
    touchParallel: 6,
    /** An outbox that stays unread this long pokes its reader again. */
    outboxPatienceMs: 30 * SECOND,
    /** A refused agent is recorded at most this often. */
    refusalNoticeMs: MINUTE,
  },
  saga: {
    sweepMs: MINUTE,
    /** A saga row whose instance errored is restarted at most this often. */
    restartLimit: 20,
    sweepBatch: 100,
    sweepParallel: 4,
    /** A running saga that has not moved for so long is touched by the sweep, in case its runtime died under it. */
    touchAfterMs: 15 * SECOND,
    /**
     * A step's retries: `delay` doubles. The last step of a saga, without which it leaves something behind, tries longer;
     * so does every step while Postgres is away.
     */
    step: { limit: 5, delayMs: SECOND, timeoutMs: 2 * MINUTE },
    criticalStep: { limit: 12, delayMs: SECOND, timeoutMs: 2 * MINUTE },
    /** A wait for an event is cut into rounds, and the truth is read again after each. */
    waitRoundMs: 15 * MINUTE,
    /** How long a terminate waits for the node's other saga to unwind, and how often it looks. */
    otherSagaWaitMs: HOUR,
    otherSagaRoundMs: 30 * SECOND,
    /** How long a terminate waits for the chain node to stop in good order. */
    stopWaitMs: 2 * MINUTE,
  },
  infrastructure: {
    /** One call to a provider's API. */
    callTimeoutMs: 30 * SECOND,
    /** The sweep destroys nothing at a provider that is younger than this. */
    sweepNotYoungerMs: HOUR,
    /** A create whose answer was lost may still finish; until then its tag is looked for. */
    createSettleMs: 15 * MINUTE,
    /** Hosts that one sweep works on, and how many of them at once. */
    sweepBatch: 50,
    sweepParallel: 4,
  },
  keys: {
    /** A step that was given up may still be writing a backup; an ended node's is looked for once more after this long. */
    settleMs: 15 * MINUTE,
    /** Nodes that one sweep works on, and how many of them at once. */
    sweepBatch: 50,
    sweepParallel: 4,
  },
  api: {
    bodyLimitBytes: 256 * 1024,
    /** An enrolment is some 300 bytes. */
    enrolmentBytes: 4 * 1024,
    pageSize: 50,
    pageSizeMax: 200,
    idempotencyKeyMaxLength: 200,
    /** An answer names at most so many things that are wrong with a request. */
    issuesShown: 100,
    /** How long a duplicate waits for the first request with its key. */
    idempotencyWaitMs: 10 * SECOND,
    lastUsedResolutionMs: MINUTE,
    /** A node's object that has not answered by then is not waited for: its copy in Postgres is shown. */
    liveViewMs: 3 * SECOND,
    /** Nodes whose copies one repair request rebuilds. */
    repairBatch: 500,
  },
  subscription: {
    durationDays: 30,
  },
  database: {
    connectTimeoutMs: 10 * SECOND,
    queryTimeoutMs: 30 * SECOND,
  },
  /** A chain's files; the four that a CONFIGURE carries must fit one frame. */
  chain: {
    files: 64,
    fileBytes: 48 * 1024,
  },
  limits: {
    stepResultBytes: 1024 * 1024,
    queueMessageBytes: 128 * 1000,
    rowBytes: 2_000_000,
    attachmentBytes: 16_384,
  },
  eventsKeptMs: 90 * DAY,
} as const;
