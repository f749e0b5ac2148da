import { readFileSync } from "node:fs";
import { z } from "zod";

const packageFile = new URL("../package.json", import.meta.url);

/** The version that the agent reports in its Hello. */
export const AGENT_VERSION = z
  .object({ version: z.string() })
  .parse(JSON.parse(readFileSync(packageFile, "utf8"))).version;
