import { z } from "zod";
import { DEFAULTS } from "../../domain/defaults.ts";
import { OrreryError } from "../../domain/errors.ts";
import type { CreateHost, Host, InfrastructureProvider } from "./provider.ts";

const hostSchema = z.object({
  providerHostId: z.string(),
  tag: z.string(),
  address: z.string(),
  status: z.enum(["starting", "running", "off"]),
  createdAt: z.number(),
});
const hostListSchema = z.object({ hosts: z.array(hostSchema) });
const failureSchema = z.object({ code: z.string(), message: z.string() });

export interface LocalProviderOptions {
  readonly url: string;
  readonly token: string;
  readonly timeoutMs?: number;
}

/** Provider `local`: rents hosts from the host runner on the developer's machine, as from a cloud's API. */
export class LocalProvider implements InfrastructureProvider {
  readonly name = "local";
  readonly #url: string;
  readonly #token: string;
  readonly #timeoutMs: number;

  constructor({ url, token, timeoutMs = DEFAULTS.infrastructure.callTimeoutMs }: LocalProviderOptions) {
    this.#url = url.replace(/\/$/, "");
    this.#token = token;
    this.#timeoutMs = timeoutMs;
  }

  async create(request: CreateHost): Promise<Host> {
    return this.#call("POST", "/hosts", hostSchema, request);
  }

  async findByTag(tag: string): Promise<readonly Host[]> {
    return (await this.#call("GET", `/hosts?tag=${encodeURIComponent(tag)}`, hostListSchema)).hosts;
  }

  async destroy(providerHostId: string): Promise<void> {
    await this.#call("DELETE", `/hosts/${encodeURIComponent(providerHostId)}`, z.null());
  }

  async powerOff(providerHostId: string): Promise<void> {
    const host = await this.#call("POST", `/hosts/${encodeURIComponent(providerHostId)}/power-off`, hostSchema);
    if (host.status !== "off") throw failure("The host did not confirm that it is off.", true);
  }

  async list(): Promise<readonly Host[]> {
    return (await this.#call("GET", "/hosts", hostListSchema)).hosts;
  }

  async #call<T>(method: string, path: string, schema: z.ZodType<T>, body?: CreateHost): Promise<T> {
    const { status, text } = await this.#send(method, path, body);
    const json = text === "" ? null : parseJson(text);
    if (status >= 400) throw refusal(status, json);
    const result = schema.safeParse(json);
    if (!result.success) throw failure("The host runner's answer is not one that we understand.", true);
    return result.data;
  }

  async #send(method: string, path: string, body: CreateHost | undefined) {
    try {
      const response = await fetch(this.#url + path, {
        method,
        headers: { authorization: `Bearer ${this.#token}`, "content-type": "application/json" },
        signal: AbortSignal.timeout(this.#timeoutMs),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, text: await response.text() };
    } catch (error) {
      // Whether the request arrived is unknown: the caller looks by tag before it asks again.
      throw failure("The host runner does not answer.", true, error);
    }
  }
}

function refusal(status: number, json: unknown): OrreryError {
  const { data } = failureSchema.safeParse(json);
  const retryable = status >= 500 || status === 409 || status === 429 || status === 404;
  return failure(data?.message ?? `The host runner answered ${status}.`, retryable, undefined, data?.code);
}

function failure(message: string, retryable: boolean, cause?: unknown, reason?: string): OrreryError {
  const details = { provider: "local", retryable, ...(reason === undefined ? {} : { reason }) };
  return new OrreryError("provider_error", message, details, { cause });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A proxy's page in place of an answer; the schema refuses it.
    return undefined;
  }
}
