import { spawn } from "node:child_process";
import { constants } from "node:os";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];

/**
 * Runs a program on this terminal to its end and answers its exit code (128 plus the number when a signal ended it).
 * The signals that this process gets meanwhile, the program gets.
 * Plain JavaScript, for the bootstrap needs it on Node.js versions that cannot read TypeScript.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {import("node:child_process").SpawnOptions} [options]
 * @returns {Promise<number>}
 */
export function runAttached(command, args, options = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: "inherit", ...options });
    const forward = (signal) => {
      // A terminal sends Ctrl-C to the whole foreground group: the child has it already.
      if (signal === "SIGINT" && process.stdin.isTTY) return;
      child.kill(signal);
    };
    for (const signal of SIGNALS) process.on(signal, forward);
    const end = (code) => {
      for (const signal of SIGNALS) process.off(signal, forward);
      resolve(code);
    };
    child.on("error", (error) => {
      console.error(`${command} cannot be started: ${error.message}`);
      end(127);
    });
    child.on("exit", (code, signal) => end(code ?? 128 + constants.signals[signal]));
  });
}
