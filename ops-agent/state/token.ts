import { readFileSync } from "node:fs";
import { OrreryError } from "../../domain/errors.ts";

/**
 * The node token. It is read for each use and kept nowhere: the bytes that were read are zeroed, and the text, which the
 * runtime owns, is left to its garbage collector.
 * @throws configuration_invalid
 */
export function readToken(file: string): string {
  const bytes = readBytes(file);
  const token = bytes.toString("latin1").trim();
  bytes.fill(0);
  if (!/^[0-9a-f]{64}$/.test(token)) throw invalid(file, "must hold the node token alone (64 hex digits)");
  return token;
}

function readBytes(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    throw invalid(file, "cannot be read", cause);
  }
}

function invalid(file: string, problem: string, cause?: unknown): OrreryError {
  return new OrreryError("configuration_invalid", `token_file: ${file} ${problem}.`, {}, { cause });
}
