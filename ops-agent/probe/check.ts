import type { NodeStatusCheck } from "../../domain/chain/runtime.ts";

/** What one readiness check found. */
export interface Readiness {
  readonly syncStatus: "unknown" | "syncing" | "synced";
  readonly height: bigint | null;
  /** Why it is not synced, for people. */
  readonly detail: string;
}

const MAX_ANSWER_BYTES = 1024 * 1024;

/**
 * Asks the chain node on this host whether it has synced, as its runtime file says. Never throws:
 * a node that does not answer, or answers something else than was asked, is `unknown`.
 */
export async function checkReadiness(check: NodeStatusCheck, port: number, signal: AbortSignal): Promise<Readiness> {
  const url = `http://127.0.0.1:${port}${check.path}`;
  const limited = AbortSignal.any([signal, AbortSignal.timeout(check.timeout)]);
  try {
    return check.kind === "http" ? await checkHttp(check, url, limited) : await checkJsonRpc(check, url, limited);
  } catch (error) {
    return { syncStatus: "unknown", height: null, detail: `The node does not answer: ${reasonOf(error)}.` };
  }
}

type CheckOf<K extends NodeStatusCheck["kind"]> = Extract<NodeStatusCheck, { kind: K }>;

async function checkJsonRpc(check: CheckOf<"json_rpc">, url: string, signal: AbortSignal): Promise<Readiness> {
  const { synced, height } = check;
  const value = at(await call(url, synced.method, synced.params, signal), synced.pointer);
  const read =
    height === undefined ? null : toHeight(at(await call(url, height.method, height.params, signal), height.pointer));
  return judged(value, synced.equals, synced.method, read);
}

async function checkHttp(check: CheckOf<"http">, url: string, signal: AbortSignal): Promise<Readiness> {
  const response = await fetch(url, { signal });
  const text = await limitedText(response);
  if (!response.ok)
    return { syncStatus: "unknown", height: null, detail: `The node answers with status ${response.status}.` };
  if (check.synced === undefined && check.height === undefined)
    return { syncStatus: "synced", height: null, detail: "" };
  const document: unknown = JSON.parse(text);
  const height = check.height === undefined ? null : toHeight(at(document, check.height.pointer));
  if (check.synced === undefined) return { syncStatus: "synced", height, detail: "" };
  return judged(at(document, check.synced.pointer), check.synced.equals, check.synced.pointer, height);
}

/** An answer without the value that was asked for says nothing about the node. */
function judged(value: unknown, equals: unknown, what: string, height: bigint | null): Readiness {
  if (value === undefined) return { syncStatus: "unknown", height, detail: `The answer has no ${what}.` };
  if (value === equals) return { syncStatus: "synced", height, detail: "" };
  return { syncStatus: "syncing", height, detail: `The node is not synced by its own word (${what}).` };
}

async function call(url: string, method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    signal,
  });
  const answer: unknown = JSON.parse(await limitedText(response));
  const error = at(answer, "/error");
  if (error !== undefined && error !== null) throw new Error(`${method} was answered with an error`);
  return at(answer, "/result");
}

async function limitedText(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > MAX_ANSWER_BYTES) throw new Error("the answer is too long");
  }
  return text + decoder.decode();
}

/** The value at a JSON pointer (RFC 6901), or undefined. */
export function at(document: unknown, pointer: string): unknown {
  let value = document;
  for (const part of pointer.split("/").slice(1)) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

/** A height as chains give it: a number, decimal text or 0x text. */
export function toHeight(value: unknown): bigint | null {
  if (typeof value === "number") return Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : null;
  if (typeof value !== "string" || !/^(0x[0-9a-fA-F]{1,16}|\d{1,19})$/.test(value)) return null;
  return BigInt(value);
}

/** An Opening has room for a sentence, whatever a library says. */
const REASON_CHARACTERS = 200;

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error).slice(0, REASON_CHARACTERS);
  const reason = error.cause instanceof Error ? error.cause.message || error.message : error.message;
  return reason.slice(0, REASON_CHARACTERS);
}
