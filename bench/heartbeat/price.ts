import { PRICES } from "../prices.ts";
import type { NodeHour } from "./hour.ts";

/** What the edge charges for one idle node, in dollars a month of thirty days, beyond the account's allowances. */
export interface NodePrice {
  readonly requests: number;
  readonly duration: number;
  readonly rowsWritten: number;
  readonly rowsRead: number;
  readonly storage: number;
  readonly workerCpu: number;
  readonly total: number;
  /** The beats, should the platform count them as messages though it answers them itself; its documents leave it open. */
  readonly beats: number;
  readonly totalWithBeats: number;
}

/** @param touchMicros CPU of one touch, of which a part is the Worker's own */
export function priceOf(hour: NodeHour, touchMicros: number): NodePrice {
  const { durableObjects: prices, workers, activeMsPerEvent, hoursPerMonth } = PRICES;
  const { webSocketMessage: messages = 0, ...others } = hour.events;
  const calls = Object.values(others).reduce((total, count) => total + count, 0);
  const monthly = (perHour: number) => perHour * hoursPerMonth;
  const gigabyteSeconds = ((calls + messages) * activeMsPerEvent * prices.gigabytes) / 1_000;
  const parts = {
    requests: monthly(calls + messages / prices.messagesPerRequest) * prices.request,
    duration: monthly(gigabyteSeconds) * prices.gigabyteSecond,
    rowsWritten: monthly(hour.rowsWritten + hour.alarmsSet) * prices.rowWritten,
    rowsRead: monthly(hour.rowsRead) * prices.rowRead,
    storage: (hour.databaseBytes / 1e9) * prices.gigabyteMonth,
    workerCpu: monthly(((hour.events.touch ?? 0) * touchMicros) / 1_000) * workers.cpuMillisecond,
  };
  const total = Object.values(parts).reduce((sum, part) => sum + part, 0);
  const beats = monthly(hour.beats / prices.messagesPerRequest) * prices.request;
  return { ...parts, total, beats, totalWithBeats: total + beats };
}
