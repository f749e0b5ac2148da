import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";

/** By what people tell a public key (hex digits) from another: the first 16 hex digits of its SHA-256. */
export function keyFingerprint(publicKey: string): string {
  return bytesToHex(sha256(hexToBytes(publicKey))).slice(0, 16);
}
