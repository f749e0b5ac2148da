/** W3C Trace Context, version 00. */
export interface TraceContext {
  readonly traceId: string;
  readonly spanId: string;
  /** The caller's span; null when the trace begins here. */
  readonly parentSpanId: string | null;
  readonly sampled: boolean;
}

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/** Goes on with the caller's trace, or begins one where the header is missing or malformed. */
export function traceOf(header: string | undefined, randomHex: (bytes: number) => string): TraceContext {
  const [, traceId, parentSpanId, flags] = TRACEPARENT.exec(header ?? "") ?? [];
  const spanId = randomHex(8);
  if (traceId === undefined || parentSpanId === undefined || isZero(traceId) || isZero(parentSpanId)) {
    return { traceId: randomHex(16), spanId, parentSpanId: null, sampled: true };
  }
  return { traceId, spanId, parentSpanId, sampled: (Number.parseInt(flags ?? "0", 16) & 1) === 1 };
}

export function formatTraceparent(trace: TraceContext): string {
  return `00-${trace.traceId}-${trace.spanId}-${trace.sampled ? "01" : "00"}`;
}

function isZero(hex: string): boolean {
  return /^0+$/.test(hex);
}
