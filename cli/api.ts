import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { Failure } from "./failure.ts";

const TIMEOUT_MS = 30_000;
const RETRY_AFTER_MS = [250, 1_000];

/** An error document of the API (RFC 9457), with whatever else it holds. */
const problemSchema = z.looseObject({
  code: z.string(),
  detail: z.string(),
  advice: z.string(),
  correlation_id: z.string(),
});

type Query = Readonly<Record<string, string | number | undefined>>;

interface Attempt {
  readonly url: string;
  readonly init: RequestInit;
}

/**
 * API v1 of one deployment with one key.
 * Every answer is checked against its schema. A request that got no answer is sent again with the same
 * Idempotency-Key, so that it takes effect once. All throw a Failure with the API's own code, or one of
 * unreachable, unexpected_answer.
 */
export class ApiClient {
  readonly #base: string;
  readonly #key: string;
  readonly #correlationId = randomUUID();

  /** @param url the deployment's address without a trailing slash */
  constructor(url: string, key: string) {
    this.#base = `${url}/api/v1`;
    this.#key = key;
  }

  get<T extends z.ZodType>(path: string, answer: T, query: Query = {}): Promise<z.output<T>> {
    return this.#send("GET", path, answer, { query });
  }

  post<T extends z.ZodType>(path: string, answer: T, body: unknown): Promise<z.output<T>> {
    return this.#send("POST", path, answer, { body });
  }

  put<T extends z.ZodType>(path: string, answer: T, body: unknown): Promise<z.output<T>> {
    return this.#send("PUT", path, answer, { body });
  }

  async #send<T extends z.ZodType>(
    method: "GET" | "POST" | "PUT",
    path: string,
    answer: T,
    { query = {}, body }: { query?: Query; body?: unknown },
  ): Promise<z.output<T>> {
    const headers = new Headers({ authorization: `Bearer ${this.#key}`, "x-correlation-id": this.#correlationId });
    if (method === "POST") headers.set("idempotency-key", randomUUID());
    if (body !== undefined) headers.set("content-type", "application/json");
    const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const { status, text } = await this.#untilAnswered({ url: this.#url(path, query), init });
    if (status >= 400) throw this.#refusal(status, text);
    return this.#checked(answer, text, `${method} ${path}`);
  }

  #url(path: string, query: Query): string {
    const url = new URL(this.#base + path);
    for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, `${value}`);
    return url.href;
  }

  async #untilAnswered({ url, init }: Attempt): Promise<{ status: number; text: string }> {
    for (let attempt = 0; ; attempt++) {
      const pauseMs = RETRY_AFTER_MS[attempt];
      try {
        const response = await fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) });
        const answer = { status: response.status, text: await response.text() };
        if (pauseMs === undefined || !isStillRunning(answer.text)) return answer;
      } catch (error) {
        if (pauseMs === undefined) throw this.#unreachable(error);
      }
      await delay(pauseMs);
    }
  }

  #unreachable(cause: unknown): Failure {
    const parts = {
      code: "unreachable",
      message: `${this.#base} did not answer: ${reasonOf(cause)}.`,
      advice: "Check the address, and that the deployment is running (its /healthz answers).",
      correlationId: this.#correlationId,
    };
    return new Failure(parts, { cause });
  }

  #refusal(status: number, text: string): Failure {
    const problem = problemSchema.safeParse(parseJson(text));
    if (!problem.success) return this.#unexpected(`answered ${status} without an error document`);
    const { code, detail, advice, correlation_id, type: _type, title: _title, ...details } = problem.data;
    return new Failure({ code, message: detail, advice, correlationId: correlation_id, details });
  }

  #checked<T extends z.ZodType>(schema: T, text: string, what: string): z.output<T> {
    const result = schema.safeParse(parseJson(text));
    if (result.success) return result.data;
    const [issue] = result.error.issues;
    const at = issue === undefined || issue.path.length === 0 ? "the whole" : issue.path.join(".");
    throw this.#unexpected(`gave ${what} an answer of another form: ${at}: ${issue?.message}`);
  }

  #unexpected(what: string): Failure {
    return new Failure({
      code: "unexpected_answer",
      message: `${this.#base} ${what}.`,
      advice: "Check that the address is an Orrery deployment of this command's version.",
      correlationId: this.#correlationId,
    });
  }
}

/** Our lost first attempt may still be at work when the second arrives. */
function isStillRunning(text: string): boolean {
  const problem = problemSchema.safeParse(parseJson(text));
  return problem.success && problem.data.code === "idempotency_in_progress";
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** fetch hides the reason in `cause`. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error && error.cause.message !== "" ? error.cause.message : error.message;
}
