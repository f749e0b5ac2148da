import { errorCodeOf, toErrorData } from "../domain/errors.ts";
import { Agent } from "./agent.ts";
import { createLog } from "./log.ts";
import { loadSettings, USAGE } from "./settings.ts";

/** Exit codes; USAGE documents them. A service manager must not restart the agent on REFUSED. */
const EXIT = { stopped: 0, unexpected: 1, configuration: 2, locked: 3, refused: 4 } as const;

process.exit(await main(process.argv.slice(2)));

async function main(argv: readonly string[]): Promise<number> {
  try {
    const settings = loadSettings(argv);
    if (settings === null) {
      process.stdout.write(USAGE);
      return EXIT.stopped;
    }
    const log = createLog(settings.log_level, { node_id: settings.node_id, generation: settings.generation });
    const agent = await Agent.open(settings, log);
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.once(signal, () => void agent.stop());
    }
    const end = await agent.run();
    if (end.kind === "stopped") return EXIT.stopped;
    log.error({ code: end.code, reason: end.message }, "the control plane refused this installation for good");
    return EXIT.refused;
  } catch (error) {
    return report(error);
  }
}

function report(error: unknown): number {
  const code = errorCodeOf(error);
  process.stderr.write(`${code === null && error instanceof Error ? error.stack : toErrorData(error).message}\n`);
  if (code === "configuration_invalid") return EXIT.configuration;
  return code === "agent_conflict" ? EXIT.locked : EXIT.unexpected;
}
