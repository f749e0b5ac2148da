import { join } from "node:path";
import { parseArgs } from "node:util";
import { createDisplay, type Display } from "./demo/display.ts";
import {
  chainHeight,
  killAndRecover,
  provisionNode,
  requireBridged,
  requireNothingLeft,
  terminateNode,
} from "./demo/node-life.ts";
import { Interrupted, interruptSignal, unlessInterrupted } from "./interrupt.ts";
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
const interrupted = interruptSignal();
/** As shells report a program that Ctrl-C ended. */
const INTERRUPTED_CODE = 130;

// Whatever an interruption has left waiting is not waited for.
process.exit(await main());

async function main(): Promise<number> {
  let stack: Stack | null = null;
  let code = 0;
  try {
    display.heading("Starting Orrery on this machine");
    stack = await startStack({
      repoDir: REPO_DIR,
      dataDir: DATA_DIR,
      watch: false,
      signal: interrupted,
      onStep: display.step,
      ...databaseOption(),
    });
    await unlessInterrupted(interrupted, Promise.race([live(stack, flags.once), failOf(stack)]));
  } catch (error) {
    display.abandonSteps();
    if (!(error instanceof Interrupted)) {
      code = 1;
      reportFailure(error, stack);
    } else if (flags.once) code = INTERRUPTED_CODE;
  }
  if (stack !== null) code = Math.max(code, await stopAll(stack));
  if (code === 0 && flags.once) display.heading("Done: the node lived, was down, recovered and left nothing behind.");
  return code;
}

async function live(stack: Stack, isOnce: boolean): Promise<void> {
  display.heading("Provisioning one node");
  const node = await provisionNode(stack, display);
  await display.step("look how the agent came", async (note) => note(await requireBridged(stack)));
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

/** @throws when a part of the stack ends by itself */
async function failOf(stack: Stack): Promise<never> {
  throw await stack.broken;
}

function databaseOption(): { databaseUrl?: string } {
  const databaseUrl = process.env.DATABASE_URL;
  return databaseUrl === undefined || databaseUrl === "" ? {} : { databaseUrl };
}

function showAddresses(out: Display, stack: Stack, nodeId: string, endpoints: Readonly<Record<string, string>>): void {
  out.heading("Up until Ctrl-C");
  out.line(`API           ${stack.url}/api/v1   (documentation at ${stack.url}/api/v1/docs)`);
  out.line(`bridge        ${stack.bridge.url}   (metrics at ${stack.bridge.httpUrl}/metrics)`);
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
