import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { type AgentRecord, type Ask, answerSchema, type StartAsk } from "./protocol.ts";

/** A process full of agents. */
export interface Fleet {
  readonly pid: number;
  /** Begins agents; answers when the last has begun, which is before it has a session. */
  start(options: Omit<StartAsk, "kind">): Promise<void>;
  /** @throws when an agent has ended though nobody stopped it */
  read(): Promise<readonly AgentRecord[]>;
  /** Lets every command that runs complete. */
  release(): Promise<void>;
  stop(): Promise<void>;
}

const MAIN = join(import.meta.dirname, "main.ts");

export function startFleet(): Fleet {
  const child = fork(MAIN, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const { pid } = child;
  if (pid === undefined) throw new Error("The fleet's process could not be started.");
  const ended = once(child, "exit");
  const waiting = new Map<number, PromiseWithResolvers<readonly AgentRecord[]>>();
  let asked = 0;
  child.on("message", (raw) => {
    const { id, problem, records } = answerSchema.parse(raw);
    const asker = waiting.get(id);
    waiting.delete(id);
    if (problem === null) asker?.resolve(records);
    else asker?.reject(new Error(`The fleet: ${problem}`));
  });
  child.on("exit", (code, signal) => {
    for (const asker of waiting.values()) asker.reject(new Error(`The fleet has ended (${signal ?? code}).`));
  });
  const ask = (what: Ask): Promise<readonly AgentRecord[]> => {
    asked += 1;
    const asker = Promise.withResolvers<readonly AgentRecord[]>();
    waiting.set(asked, asker);
    child.send({ id: asked, ask: what });
    return asker.promise;
  };
  return {
    pid,
    start: async (options) => void (await ask({ kind: "start", ...options })),
    read: () => ask({ kind: "read" }),
    release: async () => void (await ask({ kind: "release" })),
    async stop() {
      await ask({ kind: "stop" });
      child.disconnect();
      await ended;
    },
  };
}
