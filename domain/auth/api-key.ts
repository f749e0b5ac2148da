import type { EpochMs } from "../node/node.ts";

/** An API key is `orr_<id>_<secret>`: the id finds the row, and only the SHA-256 of the secret is kept. */
export interface ApiKeyParts {
  readonly id: string;
  readonly secret: string;
}

const API_KEY = /^orr_([0-9a-f]{32})_([A-Za-z0-9_-]{43})$/;
const SECRET_BYTES = 32;

/** A new key from a UUID and 32 random bytes, both the caller's. */
export function makeApiKey(uuid: string, random: Uint8Array): ApiKeyParts {
  if (random.length !== SECRET_BYTES) throw new RangeError(`An API key's secret is ${SECRET_BYTES} random bytes.`);
  const base64 = btoa(String.fromCharCode(...random));
  return { id: uuid.replaceAll("-", ""), secret: base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "") };
}

export function formatApiKey(key: ApiKeyParts): string {
  return `orr_${key.id}_${key.secret}`;
}

/** The parts of a key as sent by a client, or null when it does not even look like one. */
export function parseApiKey(text: string): ApiKeyParts | null {
  const match = API_KEY.exec(text);
  const id = match?.[1];
  const secret = match?.[2];
  return id === undefined || secret === undefined ? null : { id, secret };
}

/** Hex of SHA-256. The secret is 256 random bits, so that a plain hash is enough: there is nothing to guess. */
export async function hashSecret(secret: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Compares two texts of the same kind in a time that depends on their lengths alone. */
export function equalInConstantTime(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let index = 0; index < a.length; index += 1) {
    difference |= a.charCodeAt(index) ^ b.charCodeAt(index % Math.max(1, b.length));
  }
  return difference === 0;
}

export interface ApiKeyValidity {
  readonly expiresAt: EpochMs | null;
  readonly revokedAt: EpochMs | null;
}

/** What is wrong with a key whose secret is right; null when it may be used. A key expires at the very instant. */
export function refusalOf(key: ApiKeyValidity, now: EpochMs): "unauthenticated" | "api_key_expired" | null {
  if (key.revokedAt !== null) return "unauthenticated";
  if (key.expiresAt !== null && key.expiresAt <= now) return "api_key_expired";
  return null;
}

/** `last used` is written at most once per resolution, so that a busy key does not write a row per request. */
export function isLastUsedStale(lastUsedAt: EpochMs | null, now: EpochMs, resolutionMs: number): boolean {
  return lastUsedAt === null || now - lastUsedAt >= resolutionMs;
}
