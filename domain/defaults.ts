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
    protocolVersion: 1,
    probeMs: 2 * SECOND,
  },
  node: {
    /** A node without news is touched this often by the sweep, so that a lost alarm is found. */
    touchMs: HOUR,
    /** A derived or stored timer counts as overdue to the sweep after this long. */
    overdueMs: MINUTE,
    outboxBatch: 200,
  },
  saga: {
    sweepMs: MINUTE,
    /** A saga row whose instance errored is restarted at most this often. */
    restartLimit: 20,
    sweepBatch: 100,
  },
  infrastructure: {
    /** One call to a provider's API. */
    callTimeoutMs: 30 * SECOND,
    /** The sweep destroys nothing at a provider that is younger than this. */
    sweepNotYoungerMs: HOUR,
    /** Hosts that one sweep works on, and how many of them at once. */
    sweepBatch: 50,
    sweepParallel: 4,
  },
  api: {
    bodyLimitBytes: 256 * 1024,
    pageSize: 50,
    pageSizeMax: 200,
    idempotencyKeyMaxLength: 200,
    /** How long a duplicate waits for the first request with its key. */
    idempotencyWaitMs: 10 * SECOND,
    lastUsedResolutionMs: MINUTE,
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
