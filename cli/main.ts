#!/usr/bin/env node
import { runProgram } from "./program.ts";

// A reader such as `head` may close the pipe early; that is no failure of ours.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") process.stderr.write(`error: output_failed: ${error.message}\n`);
  process.exit(error.code === "EPIPE" ? 0 : 1);
});

process.exitCode = await runProgram(process.argv.slice(2));
