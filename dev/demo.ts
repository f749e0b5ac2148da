import { join } from "node:path";
import { parseArgs } from "node:util";
import { createDisplay, type Display } from "./demo/display.ts";
import { chainHeight, killAndRecover, provisionNode, requireNothingLeft, terminateNode } from "./demo/node-life.ts";
import { requireNoProcesses } from "./leftovers.ts";
import { type Stack, startStack } from "./stack.ts";

/**
 * `npm run demo`: starts everything on this machine, provisions a real anvil node, shows it getting healthy, stays up.
 * `--once`: does the whole life of a node, verifies that nothing is left, exits 0. A failure names the step and the log.
 */
const REPO_DIR = join(import.meta.dirname, "..");
const DATA_DIR = join(REPO_DIR, ".orrery");

const { values: flags } = parseArgs({ options: { once: { type: "boolean", default: false } } });
const display = createDisplay(process.stdout, process.stdout.isTTY === true);
const interrupted = new AbortController();
process.once("SIGINT", () => interrupted.abort());
process.once("SIGTERM", () => interrupted.abort());

process.exitCode = await main();

async function main(): Promise<number> {
  let stack: Stack | null = null;
  let code = 0;
  try {
    display.heading("Starting Orrery on this machine");
    stack = await startStack({
      repoDir: REPO_DIR,
      dataDir: DATA_DIR,
      watch: false,
      onStep: display.step,
      ...databaseOption(),
    });
    const running = untilInterrupted(live(stack, flags.once));
    await running;
  } catch (error) {
    if (!interrupted.signal.aborted) {
      code = 1;
      reportFailure(error, stack);
    }
  }
  if (stack !== null) code = Math.max(code, await stopAll(stack));
  if (code === 0 && flags.once) display.heading("Done: the node lived, was down, recovered and left nothing behind.");
  return code;
}

async function live(stack: Stack, isOnce: boolean): Promise<void> {
  display.heading("Provisioning one node");
  const node = await provisionNode(stack, display);
  await display.step("call eth_blockNumber", async (note) => note(`block ${await chainHeight(node)}`));
  if (!isOnce) {
    showAddresses(display, stack, node.id, node.endpoints);
    await new Promise(() => {});
  }
  display.heading("Losing and regaining its agent");
  await killAndRecover(stack, display, node.id);
  display.heading("Terminating it");
  await terminateNode(stack, display, node.id);
  await display.step("verify that no host and no saga is left", () => requireNothingLeft(stack, node.id));
}

/** Ctrl-C ends whatever is going on; the stack is stopped by the caller. */
function untilInterrupted(work: Promise<void>): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  interrupted.signal.addEventListener("abort", () => reject(new Error("interrupted")), { once: true });
  if (interrupted.signal.aborted) reject(new Error("interrupted"));
  return Promise.race([work, promise]);
}

function databaseOption(): { databaseUrl?: string } {
  const databaseUrl = process.env.DATABASE_URL;
  return databaseUrl === undefined || databaseUrl === "" ? {} : { databaseUrl };
}

function showAddresses(out: Display, stack: Stack, nodeId: string, endpoints: Readonly<Record<string, string>>): void {
  out.heading("Up until Ctrl-C");
  out.line(`API           ${stack.url}/api/v1   (documentation at ${stack.url}/api/v1/docs)`);
  for (const [name, url] of Object.entries(endpoints)) out.line(`node ${name.padEnd(8)} ${url}`);
  out.line(`operator key  ${stack.operatorKey}`);
  out.line(`logs          ${stack.logsDir}`);
  out.heading("Try, in a second terminal");
  out.line(`npm run orrery -- login --url ${stack.url} --key ${stack.operatorKey}`);
  out.line(`npm run orrery -- nodes get ${nodeId}`);
  out.line(`npm run orrery -- nodes terminate ${nodeId}`);
}

function reportFailure(error: unknown, stack: Stack | null): void {
  const logsDir = stack?.logsDir ?? join(DATA_DIR, "logs");
  display.heading(`Failed: ${error instanceof Error ? error.message : String(error)}`);
  display.line(`The logs are in ${logsDir}; each host's agent log is in ${join(DATA_DIR, "hosts")}.`);
}

async function stopAll(stack: Stack): Promise<number> {
  try {
    display.heading("Stopping");
    await display.step("stop everything", () => stack.stop());
    await display.step("verify that no process is left", async () => requireNoProcesses(DATA_DIR));
    return 0;
  } catch (error) {
    reportFailure(error, stack);
    return 1;
  }
}
