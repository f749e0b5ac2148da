import { Command, CommanderError } from "commander";
import { addAdmin } from "./commands/admin.ts";
import { addChains } from "./commands/chains.ts";
import { addLogin } from "./commands/login.ts";
import { addNodes } from "./commands/nodes.ts";
import { addRepair } from "./commands/repair.ts";
import { addSubscriptions } from "./commands/subscriptions.ts";
import { exitCodeOf, failureJson, failureOf, failureText, UsageFailure } from "./failure.ts";

/**
 * Runs one command line. Results go to standard output, failures to standard error.
 * @returns the exit code: 0, 1 when the command failed, 2 when the command line is wrong
 */
export async function runProgram(args: readonly string[]): Promise<number> {
  const json = args.includes("--json");
  try {
    await buildProgram(json).parseAsync([...args], { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    const failure = error instanceof CommanderError ? usageFailure(error) : failureOf(error);
    process.stderr.write(json ? failureJson(failure) : failureText(failure));
    return exitCodeOf(failure);
  }
}

function buildProgram(json: boolean): Command {
  const program = new Command("orrery")
    .description("Operate an Orrery deployment: ORRERY_URL and ORRERY_API_KEY, or `orrery login`, say which")
    .option("--json", "results and errors as JSON, one line each")
    // Wrong command lines come back as errors, which runProgram shows like every other failure.
    .exitOverride()
    .configureOutput({ outputError: () => {}, ...(json ? { writeErr: () => {} } : {}) });
  for (const add of [addLogin, addChains, addSubscriptions, addNodes, addAdmin, addRepair]) add(program);
  return program;
}

function usageFailure(error: CommanderError): UsageFailure {
  // Asked for a group without saying what: commander has shown the group's help.
  if (error.code === "commander.help") return new UsageFailure("A command is missing.");
  return new UsageFailure(error.message.replace(/^error: /, ""));
}
