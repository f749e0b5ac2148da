import { parseConfig } from "../../domain/config.ts";
import type { NodeContract } from "../node/contract.ts";

/** Attempts of one call, and the first pause between two; it doubles and is jittered. */
const ATTEMPTS = 4;
const PAUSE_MS = 50;

/**
 * Calls a node's object. This module is the one place that makes stubs: it knows how objects are named and in which
 * jurisdiction they live. Every attempt takes a new stub, because one that has failed may stay broken.
 * @throws what the object throws, as data with a `code`; a platform fault after the last attempt
 */
export async function callNode<T>(env: Env, nodeId: string, call: (node: NodeContract) => Promise<T>): Promise<T> {
  return withRetries(() => call(nodeStub(env, nodeId)));
}

/** Forwards an agent's upgrade request to its node's object. The answer holds the socket, so this is never retried. */
export function openAgentSession(env: Env, nodeId: string, request: Request): Promise<Response> {
  return nodeStub(env, nodeId).fetch(request);
}

function nodeStub(env: Env, nodeId: string) {
  const { TENANT, JURISDICTION } = parseConfig(env);
  const namespace = JURISDICTION === null ? env.NODE : env.NODE.jurisdiction(JURISDICTION);
  return namespace.getByName(`${TENANT}/node/${nodeId}`);
}

/** Repeats what the platform calls retryable, with jitter; never what it calls overloaded, and never an error of ours. */
export async function withRetries<T>(attempt: () => Promise<T>, pauseMs: number = PAUSE_MS): Promise<T> {
  for (let failures = 0; ; failures += 1) {
    try {
      return await attempt();
    } catch (thrown) {
      if (failures + 1 >= ATTEMPTS || !isRetryable(thrown)) throw thrown;
    }
    await scheduler.wait(Math.random() * pauseMs * 2 ** failures);
  }
}

function isRetryable(thrown: unknown): boolean {
  if (typeof thrown !== "object" || thrown === null) return false;
  const { retryable, overloaded }: { retryable?: unknown; overloaded?: unknown } = thrown;
  return retryable === true && overloaded !== true;
}
