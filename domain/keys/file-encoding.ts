import { utf8ToBytes } from "@noble/hashes/utils.js";
import type { KeyEncoding } from "./key-type.ts";

const HEX = utf8ToBytes("0123456789abcdef");
const BASE64 = utf8ToBytes("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
const PADDING = 0x3d;

/** A secret as the bytes of its file, without a line end. Never text on its way: a string cannot be overwritten. */
export function encodeSecret(secret: Uint8Array, encoding: KeyEncoding): Uint8Array {
  switch (encoding) {
    case "raw":
      return secret.slice();
    case "hex":
      return hexOf(secret);
    case "base64":
      return base64Of(secret);
  }
}

function hexOf(secret: Uint8Array): Uint8Array {
  const text = new Uint8Array(secret.length * 2);
  for (const [index, byte] of secret.entries()) {
    text[index * 2] = HEX[byte >> 4] ?? 0;
    text[index * 2 + 1] = HEX[byte & 15] ?? 0;
  }
  return text;
}

function base64Of(secret: Uint8Array): Uint8Array {
  const text = new Uint8Array(Math.ceil(secret.length / 3) * 4).fill(PADDING);
  for (let from = 0, to = 0; from < secret.length; from += 3, to += 4) {
    const [one = 0, two = 0, three = 0] = secret.subarray(from, from + 3);
    const bits = (one << 16) | (two << 8) | three;
    const digits = Math.min(4, secret.length - from + 1);
    for (let digit = 0; digit < digits; digit += 1) text[to + digit] = BASE64[(bits >> (18 - 6 * digit)) & 63] ?? 0;
  }
  return text;
}
