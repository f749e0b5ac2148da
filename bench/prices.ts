/**
 * What the platform charges beyond its monthly allowances; US dollars.
 * Source: the pricing pages of Cloudflare Workers and Durable Objects as collected in 2026-11; check them again before a
 * price is published.
 */
export const PRICES = {
  durableObjects: {
    /** HTTP requests, RPC sessions and alarm invocations. */
    request: 0.15 / 1e6,
    /** Incoming WebSocket messages that count as one request. */
    messagesPerRequest: 20,
    /** A second of a gigabyte, while an object is active. */
    gigabyteSecond: 12.5 / 1e6,
    /** What an object counts as, whatever it uses. */
    gigabytes: 0.128,
    rowWritten: 1 / 1e6,
    rowRead: 0.001 / 1e6,
    gigabyteMonth: 0.2,
  },
  workers: {
    request: 0.3 / 1e6,
    cpuMillisecond: 0.02 / 1e6,
  },
  /** How long an object is active for one event: the example figure of the platform's own documentation. */
  activeMsPerEvent: 10,
  hoursPerMonth: 720,
} as const;
