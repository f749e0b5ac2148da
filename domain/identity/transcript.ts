import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";

/**
 * The bytes that a MAC or signature is made over: what they are for, then each part behind its length, so that no two
 * different lists of parts give the same bytes and nothing made for one purpose serves another.
 */
export function transcript(purpose: string, parts: readonly (string | Uint8Array)[]): Uint8Array {
  const chunks = [purpose, ...parts].map((part) => (typeof part === "string" ? utf8ToBytes(part) : part));
  const bytes = new Uint8Array(chunks.reduce((total, chunk) => total + 4 + chunk.length, 0));
  const view = new DataView(bytes.buffer);
  let offset = 0;
  for (const chunk of chunks) {
    view.setUint32(offset, chunk.length);
    bytes.set(chunk, offset + 4);
    offset += 4 + chunk.length;
  }
  return bytes;
}

export function digest(purpose: string, parts: readonly (string | Uint8Array)[]): Uint8Array {
  return sha256(transcript(purpose, parts));
}

/** Compares in a time that depends on the lengths alone. */
export function equalBytes(one: Uint8Array, other: Uint8Array): boolean {
  if (one.length !== other.length) return false;
  let difference = 0;
  for (const [index, byte] of one.entries()) difference |= byte ^ (other[index] ?? 0);
  return difference === 0;
}
