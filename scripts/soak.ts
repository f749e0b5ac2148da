import { runTests } from "./run-tests.ts";

/** `npm run test:soak [-- arguments of vitest]`: the long walks of test/soak. */
process.exitCode = await runTests([["--config", "vitest.soak.config.ts", ...process.argv.slice(2)]]);
