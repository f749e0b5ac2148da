/**
 * A node's token: hex of HMAC-SHA256(master secret, "orrery-node-token:<node>:<generation>"). It is derived wherever it
 * is needed and never stored, logged or passed on.
 */
export async function deriveNodeToken(masterSecret: string, nodeId: string, generation: number): Promise<string> {
  const signature = await crypto.subtle.sign("HMAC", await hmacKey(masterSecret), tokenSubject(nodeId, generation));
  return hex(new Uint8Array(signature));
}

/** Whether `token` is the node's for this generation, compared in constant time; a malformed token is simply wrong. */
export async function verifyNodeToken(
  masterSecret: string,
  nodeId: string,
  generation: number,
  token: string,
): Promise<boolean> {
  const signature = fromHex(token);
  if (signature === null || !Number.isSafeInteger(generation) || generation < 1) return false;
  return crypto.subtle.verify("HMAC", await hmacKey(masterSecret), signature, tokenSubject(nodeId, generation));
}

function hmacKey(secret: string): Promise<CryptoKey> {
  const bytes = new Uint8Array(new TextEncoder().encode(secret));
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
}

function tokenSubject(nodeId: string, generation: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new TextEncoder().encode(`orrery-node-token:${nodeId}:${generation}`));
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function fromHex(text: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[0-9a-f]{64}$/.test(text)) return null;
  const bytes = new Uint8Array(32);
  for (let index = 0; index < bytes.length; index += 1) {
    bytes[index] = Number.parseInt(text.slice(index * 2, index * 2 + 2), 16);
  }
  return bytes;
}
