import { spawn } from "node:child_process";

export interface RunResult {
  /** The exit code; 128 and more when a signal ended the program or it could not be started. */
  readonly code: number;
  /** Standard output and error, in the order they came. */
  readonly output: string;
}

/** Runs a program to its end without a terminal or input, and keeps what it wrote. */
export function run(command: string, args: readonly string[]): Promise<RunResult> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    const chunks: Buffer[] = [];
    child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
    child.stderr.on("data", (chunk: Buffer) => chunks.push(chunk));
    child.on("error", (error) => resolve({ code: 128, output: `${command} cannot be started: ${error.message}\n` }));
    child.on("close", (code) => resolve({ code: code ?? 128, output: Buffer.concat(chunks).toString() }));
  });
}
