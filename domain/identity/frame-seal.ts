import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import type { ErrorCode } from "../errors.ts";
import { equalBytes } from "./transcript.ts";

/** One frame of a session: nobody without the session's key can make, alter, repeat or reorder one unnoticed. */
export interface SealedFrame {
  /** From 1, one more with each frame of a direction. */
  readonly counter: number;
  readonly body: Uint8Array;
  readonly mac: Uint8Array;
}

/** @param key the direction's MAC key */
export function sealFrame(key: Uint8Array, counter: number, body: Uint8Array): SealedFrame {
  return { counter, body, mac: macOf(key, counter, body) };
}

/**
 * Why a frame must not be believed; null for the one that comes after `lastCounter` (0 before the first).
 * A frame of another session or direction is forged here, since its key is another.
 */
export function frameProblem(
  key: Uint8Array,
  lastCounter: number,
  { counter, body, mac }: SealedFrame,
): Extract<ErrorCode, "frame_forged" | "frame_replayed" | "frame_out_of_order"> | null {
  if (!Number.isSafeInteger(counter) || !equalBytes(macOf(key, counter, body), mac)) return "frame_forged";
  if (counter <= lastCounter) return "frame_replayed";
  return counter === lastCounter + 1 ? null : "frame_out_of_order";
}

function macOf(key: Uint8Array, counter: number, body: Uint8Array): Uint8Array {
  const message = new Uint8Array(8 + body.length);
  new DataView(message.buffer).setBigUint64(0, BigInt(counter));
  message.set(body, 8);
  return hmac(sha256, key, message);
}
