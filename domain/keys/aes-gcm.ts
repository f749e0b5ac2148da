import { withSecret } from "./secret.ts";

/** AES-256-GCM by WebCrypto. A nonce must never serve one key twice; it is the caller's, of random bytes. */

export const NONCE_BYTES = 12;
const TAG_BYTES = 16;
export const AES_KEY_BYTES = 32;

/** The ciphertext with its tag behind it. @param context what the ciphertext is good for: opened under another it fails */
export async function encrypt(
  key: Uint8Array,
  nonce: Uint8Array,
  context: Uint8Array,
  plaintext: Uint8Array,
): Promise<Uint8Array> {
  const aesKey = await importKey(key, "encrypt");
  return withSecret(new Uint8Array(plaintext), async (copy) => {
    return new Uint8Array(await crypto.subtle.encrypt(parameters(nonce, context), aesKey, copy));
  });
}

/** The plaintext, the caller's to overwrite; null when any byte of key, nonce, context or ciphertext is another. */
export async function decrypt(
  key: Uint8Array,
  nonce: Uint8Array,
  context: Uint8Array,
  ciphertext: Uint8Array,
): Promise<Uint8Array | null> {
  if (key.length !== AES_KEY_BYTES || nonce.length !== NONCE_BYTES || ciphertext.length < TAG_BYTES) return null;
  const aesKey = await importKey(key, "decrypt");
  try {
    const plaintext = await crypto.subtle.decrypt(parameters(nonce, context), aesKey, new Uint8Array(ciphertext));
    return new Uint8Array(plaintext);
  } catch {
    return null;
  }
}

function parameters(nonce: Uint8Array, context: Uint8Array) {
  return { name: "AES-GCM", iv: new Uint8Array(nonce), additionalData: new Uint8Array(context) };
}

function importKey(key: Uint8Array, usage: "encrypt" | "decrypt"): Promise<CryptoKey> {
  return withSecret(new Uint8Array(key), (copy) => crypto.subtle.importKey("raw", copy, "AES-GCM", false, [usage]));
}
