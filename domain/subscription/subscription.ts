import { OrreryError } from "../errors.ts";
import type { EpochMs } from "../node/node.ts";

export const SUBSCRIPTION_STATUSES = ["pending_payment", "active", "expiring", "terminated"] as const;

/**
 * A node may be created on an active subscription that has not run out.
 * @throws subscription_not_active
 */
export function assertHostsNode(status: string, expiresAt: EpochMs | null, now: EpochMs): void {
  if (status !== "active") {
    throw new OrreryError("subscription_not_active", `The subscription is ${status}, not active.`, { status });
  }
  if (expiresAt !== null && expiresAt <= now) {
    throw new OrreryError("subscription_not_active", "The subscription has run out.", { status: "expiring" });
  }
}
