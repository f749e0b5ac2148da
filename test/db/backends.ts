import { afterAll, beforeAll, describe } from "vitest";
import { startEmbeddedPostgres } from "../../dev/embedded-postgres.ts";
import { freshDatabase, postgresPrograms, startRealPostgres, type TestDatabase } from "./real-postgres.ts";

export interface Backend {
  /** Running from `beforeAll` to `afterAll`. */
  readonly database: () => TestDatabase;
}

const programs = postgresPrograms();

/** Runs the same tests on PGlite and on a real PostgreSQL. */
export function onBothBackends(name: string, tests: (backend: Backend) => void): void {
  describe(`${name} (PGlite)`, () => withBackend(() => startEmbeddedPostgres({ dataDir: null }), tests));
  onRealPostgres(name, tests);
}

/** Races and locks: PGlite's clients share one backend, which hides them. */
export function onRealPostgres(name: string, tests: (backend: Backend) => void): void {
  if (programs === null) {
    const reason = "no PostgreSQL under /usr/lib/postgresql: apt-get install postgresql";
    console.warn(`skipped: ${name} (PostgreSQL): ${reason}`);
    describe.skip(`${name} (PostgreSQL): ${reason}`, () => tests({ database: notStarted }));
    return;
  }
  cluster.users += 1;
  describe(`${name} (PostgreSQL)`, () => withBackend(() => databaseOfCluster(programs), tests));
}

function withBackend(start: () => Promise<TestDatabase>, tests: (backend: Backend) => void): void {
  let running: TestDatabase | null = null;
  beforeAll(async () => {
    running = await start();
  }, 60_000);
  afterAll(() => running?.stop());
  tests({ database: () => running ?? notStarted() });
}

/** One cluster for all the tests of a file, each with a database of its own; the last one stops it. */
const cluster: { users: number; made: number; started: Promise<TestDatabase> | null } = {
  users: 0,
  made: 0,
  started: null,
};

async function databaseOfCluster(bin: string): Promise<TestDatabase> {
  cluster.started ??= startRealPostgres(bin);
  const running = await cluster.started;
  cluster.made += 1;
  const databaseUrl = await freshDatabase(running, `tests_${cluster.made}`);
  return {
    databaseUrl,
    wsProxy: running.wsProxy,
    async stop() {
      cluster.users -= 1;
      if (cluster.users === 0) await running.stop();
    },
  };
}

function notStarted(): never {
  throw new Error("The database has not been started.");
}
