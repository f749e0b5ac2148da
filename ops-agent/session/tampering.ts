import type { TamperingCode } from "../../domain/identity/tampering.ts";

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
