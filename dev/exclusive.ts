import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { createServer } from "node:net";

/**
 * Holds a directory for this process. The hold is a socket name that the kernel gives to one process only and takes back
 * when that one dies, however it dies: there is no stale lock, and of two that start at once exactly one gets it.
 * @returns what ends the hold, or null when another process has it
 */
export async function holdDirectory(path: string): Promise<(() => void) | null> {
  const name = createHash("sha256").update(realpathSync(path)).digest("hex").slice(0, 32);
  const server = createServer((socket) => socket.destroy());
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  server.once("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EADDRINUSE") resolve(false);
    else reject(error);
  });
  // A name that begins with NUL is in Linux's abstract namespace: no file of it is ever left behind.
  server.listen({ path: `\0orrery-${name}` }, () => resolve(true));
  if (!(await promise)) return null;
  server.unref();
  return () => server.close();
}
