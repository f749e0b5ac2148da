import { text } from "node:stream/consumers";
import type { Command } from "commander";
import { type Session, sessionOf } from "../session.ts";
import { parseKey, parseUrl, storeSettings } from "../settings.ts";

interface LoginOptions {
  readonly url: string;
  readonly key: string;
}

export function addLogin(program: Command): void {
  program
    .command("login")
    .description("Remember which deployment to talk to, and with which key")
    .requiredOption("--url <url>", "the deployment's address")
    .requiredOption("--key <key>", "an API key (orr_…), or - to read it from standard input")
    .action((options: LoginOptions, command: Command) => login(options, sessionOf(command)));
}

async function login(options: LoginOptions, session: Session): Promise<void> {
  const url = parseUrl(options.url);
  const key = options.key === "-" ? (await text(process.stdin)).trim() : options.key;
  const path = await storeSettings({ url, key: parseKey(key) }, process.env);
  session.result({ url, config: path }, () => `Logged in to ${url}; the key is kept in ${path}.\n`);
}
