import type { Command } from "commander";
import { ApiClient } from "./api.ts";
import { readSettings } from "./settings.ts";

/** What a command works with: the API, and where its result goes. */
export class Session {
  readonly json: boolean;

  constructor(json: boolean) {
    this.json = json;
  }

  async api(): Promise<ApiClient> {
    const { url, key } = await readSettings(process.env);
    return new ApiClient(url, key);
  }

  /** The result: the answer itself for programs, its text for people. */
  result(answer: unknown, text: () => string): void {
    process.stdout.write(this.json ? `${JSON.stringify(answer)}\n` : text());
  }

  /** A remark for people, beside the result. */
  remark(text: string): void {
    if (!this.json) process.stderr.write(`${text}\n`);
  }
}

export function sessionOf(command: Command): Session {
  return new Session(command.optsWithGlobals().json === true);
}
