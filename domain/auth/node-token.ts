/**
 * A node's token: hex of HMAC-SHA256(master secret, "orrery-node-token:<node>:<generation>"). It is derived wherever it
 * is needed and never stored, logged or passed on.
 */
export async function deriveNodeToken(masterSecret: string, nodeId: string, generation: number): Promise<string> {
  const signature = await crypto.subtle.sign("HMAC", await hmacKey(masterSecret), tokenSubject(nodeId, generation));
  return hex(new Uint8Array(signature));
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
