import { createServer } from "node:net";

/** Below the range from which the system takes the ports of outgoing connections, so that none is taken between choice and use. */
const FIRST_PORT = 20_000;
const PORT_COUNT = 10_000;

/** A port of this machine that is free now and that no host holds; `random` answers a number in [0, 1). */
export async function choosePort(taken: ReadonlySet<number>, random: () => number): Promise<number> {
  const start = Math.floor(random() * PORT_COUNT);
  for (let offset = 0; offset < PORT_COUNT; offset += 1) {
    const port = FIRST_PORT + ((start + offset) % PORT_COUNT);
    if (!taken.has(port) && (await isFree(port))) return port;
  }
  throw new Error("No port is free on this machine.");
}

export function isFree(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const server = createServer();
  server.once("error", () => resolve(false));
  server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  return promise;
}
