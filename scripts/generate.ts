import { runAttached } from "./attached.mjs";
import { GENERATED } from "./generated.ts";

/** `npm run generate`: makes every generated file anew from its source. */
for (const { name, generate } of GENERATED) {
  console.log(`${name}: ${generate.join(" ")}`);
  const [command, ...args] = generate;
  const code = await runAttached(command, args);
  if (code !== 0) process.exit(code);
}
