import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";

/**
 * The least that a host runner can see of an ops-agent: a process that starts a chain node once, in a process group of
 * its own, and stays. What a real agent does is tested with the real one.
 */
if (!existsSync("chain-started")) {
  writeFileSync("chain-started", "");
  spawn("/bin/sleep", ["3600"], { detached: true, stdio: "ignore" }).unref();
}
setInterval(() => undefined, 60_000);
