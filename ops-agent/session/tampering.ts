import type { ErrorCode } from "../../domain/errors.ts";

/** What only somebody between agent and control plane can have done. */
const TAMPERING = [
  "enrolment_forged",
  "challenge_forged",
  "goodbye_forged",
  "command_forged",
  "frame_forged",
  "frame_replayed",
  "frame_out_of_order",
  "frame_too_large",
  "malformed_frame",
  "proof_invalid",
  "agent_unauthenticated",
] as const satisfies readonly ErrorCode[];
export type TamperingCode = (typeof TAMPERING)[number];

export function isTampering(code: ErrorCode): code is TamperingCode {
  return TAMPERING.some((known) => known === code);
}

export interface Tampering {
  readonly code: TamperingCode;
  readonly message: string;
  /** The way that it was met on. */
  readonly transport: string;
}

const KEPT = 8;

/** What was met since the control plane was last told: each kind on each way once. */
export class TamperingReports {
  readonly #reports = new Map<string, Tampering>();

  add(report: Tampering): void {
    const key = `${report.transport} ${report.code}`;
    if (this.#reports.has(key) || this.#reports.size < KEPT) this.#reports.set(key, report);
  }

  all(): readonly Tampering[] {
    return [...this.#reports.values()];
  }

  clear(): void {
    this.#reports.clear();
  }
}
