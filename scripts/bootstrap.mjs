/**
 * Runs a command with the pinned Node.js and tools, installing them first when they are missing or stale:
 * `node scripts/bootstrap.mjs <command> [arguments]`. Plain JavaScript without dependencies, for it runs before
 * anything is installed and on the machine's own Node.js (20 or later).
 */
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runAttached } from "./attached.mjs";
import { withLock } from "./install-lock.mjs";
import { installNeeded } from "./install-state.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

async function main([command, ...args]) {
  if (command === undefined) {
    console.error("Usage: node scripts/bootstrap.mjs <command> [arguments]");
    return 2;
  }
  const installed = await ensureInstalled();
  if (installed !== 0) return installed;
  const env = {
    ...process.env,
    PATH: [join(root, "node_modules/.bin"), process.env.PATH].join(delimiter),
    WRANGLER_SEND_METRICS: "false",
  };
  return runAttached(command, args, { env });
}

async function ensureInstalled() {
  if (installNeeded(root) === null) return 0;
  const lock = join(root, ".orrery/install.lock");
  const onWait = () => console.error("Another command is installing the dependencies; waiting for it …");
  return withLock(lock, { onWait }, async () => {
    const reason = installNeeded(root);
    if (reason === null) return 0;
    console.error(`Installing: ${reason} (npm ci, about a minute) …`);
    // npm reports on stderr, so that the command's own output stays clean; its warnings are about the old Node.js.
    const options = { cwd: root, env: installEnvironment(), stdio: ["ignore", 2, 2] };
    const code = await runAttached("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], options);
    if (code !== 0) console.error("npm ci failed; correct what it says above and run the command again.");
    return code;
  });
}

/** Without the settings of an `npm run` around us: a flag meant for that command must not change the install. */
function installEnvironment() {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^npm_(config_(omit|include|production|ignore_scripts|global|prefix)|lifecycle_|package_)/i.test(name),
  );
  return { ...Object.fromEntries(kept), NODE_ENV: "development" };
}

process.exitCode = await main(process.argv.slice(2));
