import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { parse } from "yaml";
import { z } from "zod";
import { parseSettings } from "../../domain/config.ts";
import { type AgentExtras, agentExtrasSchema } from "./bootstrap.ts";
import { Hosts } from "./hosts.ts";
import { createRunnerServer } from "./server.ts";

/**
 * The provider `local`: stands where a cloud would, for development and tests. Prints one line of JSON, `{"url": …}`,
 * when it listens. Its hosts run on when it ends, as a cloud's do when its API is away.
 */
const settingsSchema = z.object({
  "data-dir": z.string().min(1),
  "token-file": z.string().min(1),
  port: z.coerce.number().int().min(0).max(65_535),
  "agent-entry": z.string().min(1),
  /** A YAML file of settings that every agent gets beside its own. */
  "agent-settings": z.string().min(1).optional(),
});

const { values } = parseArgs({
  options: {
    "data-dir": { type: "string" },
    "token-file": { type: "string" },
    port: { type: "string", default: "0" },
    "agent-entry": { type: "string", default: join(import.meta.dirname, "../../ops-agent/main.ts") },
    "agent-settings": { type: "string" },
  },
});
const settings = parseSettings(settingsSchema, "The host runner's command line", values);
const token = (await readFile(settings["token-file"], "utf8")).trim();
const hosts = new Hosts({
  dataDir: settings["data-dir"],
  agentEntry: settings["agent-entry"],
  agentExtras: await agentExtras(settings["agent-settings"]),
});
await hosts.open();

const server = createRunnerServer(hosts, token);
server.listen(settings.port, "127.0.0.1", () => {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The host runner has no TCP address.");
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${address.port}` })}\n`);
});

async function agentExtras(file: string | undefined): Promise<AgentExtras> {
  const extras: unknown = file === undefined ? {} : parse(await readFile(file, "utf8"));
  return parseSettings(agentExtrasSchema, `The agents' settings (${file})`, extras);
}

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    server.close(() => process.exit(0));
    server.closeAllConnections();
  });
}
