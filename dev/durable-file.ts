import { renameSync, writeFileSync } from "node:fs";

/** Replaces a file whole: whoever is killed in the middle leaves the old content, never half of the new. */
export function replaceFile(path: string, content: string): void {
  const aside = `${path}.${process.pid}`;
  writeFileSync(aside, content, { mode: 0o600 });
  renameSync(aside, path);
}
