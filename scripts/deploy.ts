import { readFile } from "node:fs/promises";
import { z } from "zod";
import { migrate } from "../db/migrate.ts";
import { parseSettings } from "../domain/config.ts";
import { toErrorData } from "../domain/errors.ts";
import { runAttached } from "./attached.mjs";

/**
 * `npm run deploy -- <tenant> [arguments of wrangler deploy]`: brings the tenant's database up to date, then deploys the
 * tenant's Worker. DATABASE_URL names the database; with --dry-run nothing outside this machine is touched.
 */

/** A tenant's facts that no later deploy may change: objects' ids depend on the jurisdiction. */
const tenantsSchema = z.record(
  z.string().regex(/^[a-z0-9][a-z0-9-]{0,39}$/, "must be 1 to 40 characters of a-z, 0-9 and -"),
  z.strictObject({ jurisdiction: z.enum(["", "eu"]) }),
);

async function main([tenant, ...rest]: readonly string[]): Promise<number> {
  const tenants = parseSettings(tenantsSchema, "tenants.json", JSON.parse(await readFile("tenants.json", "utf8")));
  const facts = tenant === undefined ? undefined : tenants[tenant];
  if (facts === undefined) {
    console.error("Usage: npm run deploy -- <tenant> [--dry-run]");
    console.error(`Tenants of tenants.json: ${Object.keys(tenants).join(", ")}. Add a new one there first.`);
    return 2;
  }
  if (!rest.includes("--dry-run")) {
    const databaseUrl = parseSettings(z.url("must be a postgres:// URL"), "DATABASE_URL", process.env.DATABASE_URL);
    console.log(`Applied ${await migrate(databaseUrl)} migrations.`);
  }
  const vars = [`TENANT:${tenant}`, `JURISDICTION:${facts.jurisdiction}`].flatMap((value) => ["--var", value]);
  return runAttached("wrangler", ["deploy", "--name", `orrery-${tenant}`, ...vars, ...rest]);
}

process.exitCode = await main(process.argv.slice(2)).catch((error: unknown) => {
  const { code, message } = toErrorData(error);
  console.error(code === "internal" ? error : message);
  return 1;
});
