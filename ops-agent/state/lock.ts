import { statSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { OrreryError } from "../../domain/errors.ts";

/**
 * Holds a state directory against a second agent, for the life of this process.
 * The lock is the name of an abstract socket, so the kernel frees it however the process ends and no stale file can be left.
 * The name is the directory's device and inode: another path to the same directory is the same lock.
 * @throws agent_conflict when another agent holds it
 */
export async function lockDirectory(directory: string): Promise<Server> {
  const { dev, ino } = statSync(directory);
  const server = createServer((socket) => socket.destroy());
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen(`\0orrery-agent-${dev}-${ino}`, resolve);
  try {
    await promise;
  } catch (error) {
    if (!isAddressInUse(error)) throw error;
    throw new OrreryError("agent_conflict", `Another agent runs on the state directory ${directory}.`);
  }
  server.unref();
  return server;
}

function isAddressInUse(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "EADDRINUSE";
}
