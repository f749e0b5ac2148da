import { errorCodeOf } from "../../../domain/errors.ts";
import { injectKeys } from "../../../ops-agent/keys/inject-keys.ts";
import { DataDir } from "../../../ops-agent/recipe/data-dir.ts";
import { INSTALLATION_ID, NODE_ID, SEALING_SECRET, sealedKeys } from "./sealed-keys.ts";

/** Injects a key that is to belong to `owner`, as whatever account this program runs as, and prints how it ended. */
const [directory = "", owner = ""] = process.argv.slice(2);
const dataDir = await DataDir.open(directory);
const host = { nodeId: NODE_ID, installationId: INSTALLATION_ID, sealingSecretKey: () => SEALING_SECRET, dataDir };
try {
  const payload = await sealedKeys([{ name: "node_key", text: "secret", owner }]);
  await injectKeys(payload, host, new AbortController().signal);
  console.log("injected");
} catch (error) {
  console.log(`${errorCodeOf(error)}: ${error instanceof Error ? error.message : String(error)}`);
}
