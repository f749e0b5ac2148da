import { defineConfig } from "vitest/config";

/** The long walks: real time, real processes, one after the other. Too slow for every change (see `npm run test:soak`). */
export default defineConfig({
  test: {
    name: "soak",
    include: ["test/soak/**/*.test.ts"],
    testTimeout: 3_600_000,
    hookTimeout: 300_000,
    fileParallelism: false,
  },
});
