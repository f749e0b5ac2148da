/**
 * The content hash of a chain's files: `sha256:` and the hex digest of the JSON list of [name, text] pairs in the order of their names.
 * The same files give the same hash however they were pushed.
 */
export async function chainContentHash(files: Readonly<Record<string, string>>): Promise<string> {
  const pairs = Object.entries(files).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(pairs)));
  return `sha256:${Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
