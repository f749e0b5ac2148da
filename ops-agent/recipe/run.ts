import { spawn } from "node:child_process";
import type { WriteStream } from "node:fs";
import { OrreryError } from "../../domain/errors.ts";
import { sendSignal } from "../runtime/proc.ts";

export interface Program {
  /** Absolute, inside the data directory. */
  readonly path: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Runs a program to its end, in a process group of its own that is killed whole when the signal fires. There is no shell.
 * Its output goes to the given file and never into messages: it may hold secrets.
 * @throws step_failed unless it exits with 0
 */
export async function runProgram(program: Program, output: WriteStream, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = spawn(program.path, [...program.args], {
    cwd: program.cwd,
    env: { ...program.env },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.stdout.pipe(output, { end: false });
  child.stderr.pipe(output, { end: false });
  child.once("error", reject);
  child.once("exit", (code, killedBy) => resolve(killedBy === null ? `code ${code}` : `signal ${killedBy}`));
  const kill = () => (child.pid === undefined ? undefined : sendSignal(-child.pid, "SIGKILL"));
  signal.addEventListener("abort", kill, { once: true });
  try {
    const end = await promise.catch((cause) => {
      throw new OrreryError("step_failed", `The program cannot be started: ${String(cause)}.`, {}, { cause });
    });
    signal.throwIfAborted();
    if (end === "code 0") return;
    throw new OrreryError("step_failed", `The program ended with ${end}; its output is in recipe.log on the host.`);
  } finally {
    signal.removeEventListener("abort", kill);
    // What the program started and left behind does not outlive its step.
    kill();
  }
}
