import { runTests } from "./run-tests.ts";

/**
 * `npm test [-- layer… other arguments]`: the layers one after the other, because the real processes of the last would
 * disturb the rest. Layers that are named run alone; every other argument goes to vitest.
 */
const LAYERS = ["domain", "workerd", "node", "e2e"];

const args = process.argv.slice(2);
const named = LAYERS.filter((layer) => args.includes(layer));
const rest = args.filter((arg) => !LAYERS.includes(arg));
// A narrowed run may find nothing in some layer; a whole run that finds nothing in one is wrong.
const narrowed = rest.length > 0 ? ["--passWithNoTests", ...rest] : [];

process.exitCode = await runTests(
  (named.length > 0 ? named : LAYERS).map((layer) => ["--project", layer, ...narrowed]),
);
