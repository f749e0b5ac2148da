import { defineConfig } from "drizzle-kit";

/** `drizzle-kit generate --name <what>` writes the next migration; migrations are append-only. */
export default defineConfig({
  dialect: "postgresql",
  schema: "./db/schema.ts",
  out: "./migrations",
  breakpoints: true,
  strict: true,
});
