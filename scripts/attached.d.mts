import type { SpawnOptions } from "node:child_process";

export function runAttached(command: string, args: readonly string[], options?: SpawnOptions): Promise<number>;
