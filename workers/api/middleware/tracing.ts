import { createMiddleware } from "hono/factory";
import { routePath } from "hono/route";
import type { Config } from "../../../domain/config.ts";
import { errorText, log } from "../../../durable-objects/shared/log.ts";
import { type ApiContext, type ApiEnv, setHeader } from "../context.ts";
import { formatTraceparent, type TraceContext, traceOf } from "../trace-context.ts";

/**
 * Carries W3C trace context, and exports the request's span by OTLP/HTTP JSON where an endpoint is set. The export
 * happens after the answer and never changes it.
 */
export const tracing = createMiddleware<ApiEnv>(async (c, next) => {
  const trace = traceOf(c.req.header("traceparent"), randomHex);
  c.set("trace", trace);
  const startedAt = Date.now();
  await next();
  setHeader(c, "traceparent", formatTraceparent(trace));
  // Without valid settings there is no configuration, and the answer says so.
  const config: Config | undefined = c.get("config");
  const endpoint = config?.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (endpoint === undefined || !trace.sampled) return;
  c.executionCtx.waitUntil(exportSpan(endpoint, spanOf(c, trace, startedAt, Date.now())));
});

async function exportSpan(endpoint: string, span: object): Promise<void> {
  try {
    const response = await fetch(`${endpoint.replace(/\/$/, "")}/v1/traces`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(span),
      signal: AbortSignal.timeout(10_000),
    });
    await response.body?.cancel();
    if (!response.ok) log("warn", "trace export refused", { status: response.status });
  } catch (thrown) {
    log("warn", "trace export failed", { error: errorText(thrown) });
  }
}

const SPAN_KIND_SERVER = 2;
const STATUS_ERROR = 2;

function spanOf(c: ApiContext, trace: TraceContext, startedAt: number, endedAt: number): object {
  const route = routePath(c, -1);
  const span = {
    traceId: trace.traceId,
    spanId: trace.spanId,
    ...(trace.parentSpanId === null ? {} : { parentSpanId: trace.parentSpanId }),
    name: `${c.req.method} ${route}`,
    kind: SPAN_KIND_SERVER,
    startTimeUnixNano: `${startedAt}000000`,
    endTimeUnixNano: `${endedAt}000000`,
    attributes: [
      attribute("http.request.method", c.req.method),
      attribute("http.route", route),
      attribute("url.path", c.req.path),
      attribute("orrery.correlation_id", c.get("correlationId")),
      { key: "http.response.status_code", value: { intValue: String(c.res.status) } },
    ],
    status: c.res.status >= 500 ? { code: STATUS_ERROR } : {},
  };
  const resource = { attributes: [attribute("service.name", "orrery"), attribute("orrery.tenant", c.env.TENANT)] };
  return { resourceSpans: [{ resource, scopeSpans: [{ scope: { name: "orrery.api" }, spans: [span] }] }] };
}

function attribute(key: string, value: string) {
  return { key, value: { stringValue: value } };
}

function randomHex(bytes: number): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (byte) => byte.toString(16).padStart(2, "0")).join(
    "",
  );
}
