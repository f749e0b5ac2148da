import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { OrreryError } from "../../domain/errors.ts";

/** Who a file belongs to. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

const ACCOUNT_NAME = /^[a-z_][a-z0-9_-]{0,31}$/;

/**
 * The account of this host by its name, wherever the host keeps its accounts.
 * @throws key_injection_failed when there is none
 */
export async function accountOf(name: string): Promise<Account> {
  const [uid, gid] = ACCOUNT_NAME.test(name) ? await Promise.all([idOf("-u", name), idOf("-g", name)]) : [null, null];
  if (uid !== null && gid !== null) return { uid, gid };
  throw new OrreryError("key_injection_failed", `This host has no account ${JSON.stringify(name)}.`);
}

async function idOf(flag: "-u" | "-g", name: string): Promise<number | null> {
  try {
    const { stdout } = await promisify(execFile)("id", [flag, name]);
    return /^\d+$/.test(stdout.trim()) ? Number(stdout) : null;
  } catch {
    return null;
  }
}
