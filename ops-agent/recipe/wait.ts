import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

const EVERY_MS = 200;
const ATTEMPT_MS = 2_000;

/** Waits until something listens on the port of this host; ends only by success or the signal. */
export async function waitForPort(port: number, signal: AbortSignal): Promise<void> {
  while (!(await isListening(port))) await delay(EVERY_MS, undefined, { signal });
}

/** Waits until the address answers with the status; ends only by success or the signal. */
export async function waitForHttp(url: string, status: number, signal: AbortSignal): Promise<void> {
  while ((await statusOf(url, signal)) !== status) await delay(EVERY_MS, undefined, { signal });
}

function isListening(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host: "127.0.0.1", port, timeout: ATTEMPT_MS });
  socket.once("connect", () => resolve(true));
  socket.once("error", () => resolve(false));
  socket.once("timeout", () => resolve(false));
  return promise.finally(() => socket.destroy());
}

async function statusOf(url: string, signal: AbortSignal): Promise<number | null> {
  try {
    const response = await fetch(url, {
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(ATTEMPT_MS)]),
    });
    await response.body?.cancel();
    return response.status;
  } catch {
    signal.throwIfAborted();
    return null;
  }
}
