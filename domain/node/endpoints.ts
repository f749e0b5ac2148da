import { z } from "zod";
import { templateKey } from "../chain/fields.ts";

/** The schemes under which a chain node is reached. */
export const ENDPOINT_SCHEMES = ["http", "https", "ws", "wss", "tcp"] as const;

const schemeSchema = z.enum(ENDPOINT_SCHEMES);
const MAX_ADDRESS = 512;

/**
 * What an agent reports as addresses of its chain node, without what is none: people and browsers open them, so a
 * `javascript:` or `file:` URL, or a name that steers a terminal, is not passed on.
 */
export function endpointsOf(reported: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(reported).filter(([name, address]) => templateKey.safeParse(name).success && isAddress(address)),
  );
}

function isAddress(text: string): boolean {
  // Visible characters only: a parser of URLs would drop or encode the others without a word.
  if (text.length > MAX_ADDRESS || !/^[!-~]+$/.test(text)) return false;
  const url = URL.parse(text);
  return url !== null && url.hostname !== "" && schemeSchema.safeParse(url.protocol.slice(0, -1)).success;
}
