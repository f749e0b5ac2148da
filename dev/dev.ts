import { join } from "node:path";
import { createDisplay } from "./demo/display.ts";
import { startStack } from "./stack.ts";

/** `npm run dev`: everything on this machine, the Worker rebuilt when a file changes, until Ctrl-C. */
const repoDir = join(import.meta.dirname, "..");
const display = createDisplay(process.stdout, process.stdout.isTTY === true);
const databaseUrl = process.env.DATABASE_URL;

const stack = await startStack({
  repoDir,
  dataDir: join(repoDir, ".orrery"),
  watch: true,
  onStep: display.step,
  ...(databaseUrl === undefined || databaseUrl === "" ? {} : { databaseUrl }),
});
display.heading("Up until Ctrl-C");
display.line(`API           ${stack.url}/api/v1   (documentation at ${stack.url}/api/v1/docs)`);
display.line(`host runner   ${stack.hostRunner.url}`);
display.line(`Postgres      ${stack.databaseUrl}`);
display.line(`operator key  ${stack.operatorKey}`);
display.line(`logs          ${stack.logsDir}`);

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    display.heading("Stopping");
    stack.stop().then(
      () => process.exit(0),
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  });
}
