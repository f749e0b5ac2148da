import { join } from "node:path";
import { createDisplay } from "./demo/display.ts";
import { Interrupted, interruptSignal, unlessInterrupted } from "./interrupt.ts";
import { type Stack, startStack } from "./stack.ts";

/** `npm run dev`: everything on this machine, the Worker rebuilt when a file changes, until Ctrl-C. */
const repoDir = join(import.meta.dirname, "..");
const databaseUrl = process.env.DATABASE_URL;
const display = createDisplay(process.stdout, process.stdout.isTTY === true);
const interrupted = interruptSignal();

process.exit(await main());

async function main(): Promise<number> {
  let stack: Stack | null = null;
  let code = 0;
  try {
    stack = await startStack({
      repoDir,
      dataDir: join(repoDir, ".orrery"),
      watch: true,
      signal: interrupted,
      onStep: display.step,
      ...(databaseUrl === undefined || databaseUrl === "" ? {} : { databaseUrl }),
    });
    showAddresses(stack);
    throw await unlessInterrupted(interrupted, stack.broken);
  } catch (error) {
    if (!(error instanceof Interrupted)) code = failed(error);
  }
  if (stack === null) return code;
  display.heading("Stopping");
  return stack.stop().then(() => code, failed);
}

function showAddresses(stack: Stack): void {
  display.heading("Up until Ctrl-C");
  display.line(`API           ${stack.url}/api/v1   (documentation at ${stack.url}/api/v1/docs)`);
  display.line(`bridge        ${stack.bridge.url}   (metrics at ${stack.bridge.httpUrl}/metrics)`);
  display.line(`host runner   ${stack.hostRunner.url}`);
  display.line(`Postgres      ${stack.databaseUrl}`);
  display.line(`operator key  ${stack.operatorKey}`);
  display.line(`logs          ${stack.logsDir}`);
}

function failed(error: unknown): number {
  display.heading(`Failed: ${error instanceof Error ? error.message : String(error)}`);
  return 1;
}
