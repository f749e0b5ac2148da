import { chmod, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";
import { Failure, UsageFailure } from "./failure.ts";

/** Which deployment to talk to, and as whom. */
export interface Settings {
  readonly url: string;
  readonly key: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

const storedSchema = z.object({ url: z.string(), key: z.string() });

/** `$XDG_CONFIG_HOME/orrery/config.json`, by default under `~/.config`. */
function settingsPath(env: Environment): string {
  const base = env.XDG_CONFIG_HOME || join(homedir(), ".config");
  return join(base, "orrery", "config.json");
}

/**
 * The settings in force: ORRERY_URL and ORRERY_API_KEY win over what `orrery login` stored.
 * @throws Failure not_logged_in, configuration_invalid
 */
export async function readSettings(env: Environment): Promise<Settings> {
  const stored = env.ORRERY_URL && env.ORRERY_API_KEY ? null : await readStored(settingsPath(env));
  const url = env.ORRERY_URL || stored?.url;
  const key = env.ORRERY_API_KEY || stored?.key;
  if (url === undefined || key === undefined) {
    throw new Failure({
      code: "not_logged_in",
      message: `No ${url === undefined ? "deployment" : "API key"} is set.`,
      advice: "Run `orrery login --url <url> --key <key>`, or set ORRERY_URL and ORRERY_API_KEY.",
    });
  }
  return { url: parseUrl(url), key: parseKey(key) };
}

/** The deployment's address alone, for the one command that needs no key of ours. */
export async function readUrl(given: string | undefined, env: Environment): Promise<string> {
  const url = given ?? (env.ORRERY_URL || (await readStored(settingsPath(env)))?.url);
  if (url === undefined) throw new UsageFailure("Name the deployment with --url <url> or ORRERY_URL.");
  return parseUrl(url);
}

/** Stores the settings so that only their owner can read them. @returns the file */
export async function storeSettings(settings: Settings, env: Environment): Promise<string> {
  const path = settingsPath(env);
  try {
    await replace(path, `${JSON.stringify(settings, null, 2)}\n`);
  } catch (error) {
    const parts = {
      code: "configuration_unwritable",
      message: `${path} cannot be written: ${reasonOf(error)}.`,
      advice: "Set XDG_CONFIG_HOME to a directory of yours, or set ORRERY_URL and ORRERY_API_KEY in place of a login.",
    };
    throw new Failure(parts, { cause: error });
  }
  return path;
}

async function replace(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  // Written aside and moved, so that a reader never meets half a file.
  const aside = `${path}.${process.pid}`;
  await writeFile(aside, content, { mode: 0o600 });
  await chmod(aside, 0o600);
  await rename(aside, path);
}

/** A key or secret as it can be sent. @throws UsageFailure when it is empty or holds what no header takes */
export function parseKey(text: string): string {
  if (/^[!-~]+$/.test(text)) return text;
  throw new UsageFailure(text === "" ? "The key is empty." : "The key holds blanks or characters that no key has.");
}

/** The address without a trailing slash. @throws UsageFailure when it is not an http(s) address */
export function parseUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null || !["http:", "https:"].includes(url.protocol)) {
    throw new UsageFailure(`${JSON.stringify(text)} is not an http(s) address of a deployment.`);
  }
  return `${url.origin}${url.pathname}`.replace(/\/+$/, "");
}

async function readStored(path: string): Promise<Settings | null> {
  try {
    return storedSchema.parse(JSON.parse(await readFile(path, "utf8")));
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return null;
    const parts = {
      code: "configuration_invalid",
      message: `${path} is not a configuration that \`orrery login\` wrote.`,
      advice: "Run `orrery login` again.",
    };
    throw new Failure(parts, { cause: error });
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
