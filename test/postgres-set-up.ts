import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { TestProject } from "vitest/node";
import { z } from "zod";

declare module "vitest" {
  interface ProvidedContext {
    databaseUrl: string;
    databaseWsProxy: string;
  }
}

const addresses = z.object({ databaseUrl: z.string(), wsProxy: z.string() });

/**
 * One migrated PGlite for all test files of a project; files keep apart by ids of their own. It is a process of its own
 * because this module is resolved for workerd, where packages such as `ws` answer with their browser build.
 */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const program = new URL("./postgres-server.ts", import.meta.url).pathname;
  const server = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(server, "exit");
  const line = await firstLine(server.stdout, ended);
  const { databaseUrl, wsProxy } = addresses.parse(JSON.parse(line));
  project.provide("databaseUrl", databaseUrl);
  project.provide("databaseWsProxy", wsProxy);
  return async () => {
    server.stdin.end();
    await ended;
  };
}

async function firstLine(output: NodeJS.ReadableStream, ended: Promise<unknown>): Promise<string> {
  const died = ended.then(() => {
    throw new Error("The embedded Postgres ended before it was ready; its error is above.");
  });
  const [line] = await Promise.race([once(createInterface(output), "line"), died]);
  return String(line);
}
