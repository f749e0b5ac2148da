import { type ServiceError, status } from "@grpc/grpc-js";
import type { TransportEnd } from "./way.ts";

/** What a failed call says of the connection's end, and of when to come back. */
export function endOf({ code, details, metadata }: Pick<ServiceError, "code" | "details" | "metadata">): TransportEnd {
  const hint = Number(metadata?.get("orrery-reconnect-after-ms")[0]);
  const isHint = code === status.UNAVAILABLE && Number.isSafeInteger(hint) && hint >= 0;
  return { reason: `${status[code] ?? code}: ${details.slice(0, 300)}`, reconnectAfterMs: isHint ? hint : null };
}
