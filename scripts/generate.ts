import { runAttached } from "./attached.mjs";
import { GENERATED } from "./generated.ts";

/** `npm run generate [-- --name <what>]`: makes every generated file anew from its source; the name is a new migration's. */
for (const { name, generate } of GENERATED) {
  console.log(`${name}: ${generate.join(" ")}`);
  const [command, ...args] = generate;
  const code = await runAttached(command, command === "drizzle-kit" ? [...args, ...process.argv.slice(2)] : args);
  if (code !== 0) process.exit(code);
}
