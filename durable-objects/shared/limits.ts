import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";

/**
 * The platform's limits, asserted by us: the local runtime accepts what production refuses.
 * @throws limit_exceeded
 */
export function assertSize(what: "row" | "attachment" | "queue message", value: string): string {
  const limit = LIMITS[what];
  const bytes = new TextEncoder().encode(value).byteLength;
  if (bytes <= limit) return value;
  throw new OrreryError("limit_exceeded", `A ${what} of ${bytes} bytes is larger than the limit of ${limit}.`, {
    what,
    bytes,
    limit,
  });
}

const LIMITS = {
  row: DEFAULTS.limits.rowBytes,
  attachment: DEFAULTS.limits.attachmentBytes,
  "queue message": DEFAULTS.limits.queueMessageBytes,
} as const;
