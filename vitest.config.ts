import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { TEST_SECRETS } from "./test/workerd/bindings.ts";

/**
 * Four layers (see CONTRIBUTING): pure rules, objects and workflows in workerd, programs in Node with real peers,
 * and the built system end to end. Soak walks have a config of their own.
 */
export default defineConfig({
  test: {
    // The product's own log lines help where a test failed, and bury the rest elsewhere.
    silent: "passed-only",
    projects: [
      {
        test: {
          name: "domain",
          include: ["test/domain/**/*.test.ts"],
        },
      },
      {
        plugins: [
          cloudflareTest(({ inject }) => ({
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: {
              bindings: {
                ...TEST_SECRETS,
                DATABASE_URL: inject("databaseUrl"),
                DATABASE_WS_PROXY: inject("databaseWsProxy"),
              },
            },
          })),
        ],
        test: {
          name: "workerd",
          globalSetup: ["test/postgres-set-up.ts"],
          include: ["test/workerd/**/*.test.ts"],
          // A file's first request compiles the whole Worker, which takes seconds on a busy machine.
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: "node",
          include: ["test/**/*.test.ts"],
          exclude: ["test/domain/**", "test/workerd/**", "test/e2e/**", "test/soak/**"],
          testTimeout: 30_000,
        },
      },
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          // Each file has a deployment of its own, and waits for timers most of the time.
          maxWorkers: 2,
        },
      },
    ],
  },
});
