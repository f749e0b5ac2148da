import { parseArgs } from "node:util";
import { heartbeat } from "./heartbeat/bench.ts";

/** `npm run bench -- <name> [--json] [--quick]`: one measurement against the pinned runtime, and whether it keeps its limits. */

export interface BenchOptions {
  /** Small and short: shows that the bench works, its figures mean nothing. */
  readonly quick: boolean;
  /** One line of what is going on. */
  readonly say: (line: string) => void;
}

export interface BenchResult {
  /** The figures as data. */
  readonly figures: unknown;
  /** The same for people. */
  readonly text: string;
}

interface Bench {
  readonly about: string;
  readonly run: (options: BenchOptions) => Promise<BenchResult>;
}

const BENCHES: Readonly<Record<string, Bench>> = { heartbeat };

async function main(argv: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...argv],
    options: { json: { type: "boolean", default: false }, quick: { type: "boolean", default: false } },
    allowPositionals: true,
  });
  const [name = "", ...more] = positionals;
  const bench = Object.hasOwn(BENCHES, name) ? BENCHES[name] : undefined;
  if (bench === undefined || more.length > 0) {
    console.error(`${name === "" ? "Which bench?" : `There is no bench "${positionals.join(" ")}".`}\n\n${usage()}`);
    return 2;
  }
  const startedAt = performance.now();
  const say = (line: string) => console.error(`${seconds(performance.now() - startedAt)}  ${line}`);
  const { figures, text } = await bench.run({ quick: values.quick, say });
  console.log(values.json ? JSON.stringify(figures, null, 2) : text);
  return 0;
}

function usage(): string {
  const lines = Object.entries(BENCHES).map(([name, { about }]) => `  ${name.padEnd(12)}${about}`);
  const flags = "Flags: --json prints the figures as JSON; --quick runs small and short, to see that it works.";
  return `Usage: npm run bench -- <name> [--json] [--quick]\n\n${lines.join("\n")}\n\n${flags}`;
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(0).padStart(5)} s`;
}

process.exitCode = await main(process.argv.slice(2));
