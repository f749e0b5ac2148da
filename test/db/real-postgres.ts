import { type ExecFileSyncOptions, execFileSync } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { startDatabaseProxy } from "../../dev/database-proxy.ts";

const DEBIAN = "/usr/lib/postgresql";

/** The directory of the newest PostgreSQL programs that Debian has installed, or null. */
export function postgresPrograms(): string | null {
  if (!existsSync(DEBIAN)) return null;
  const versions = readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a));
  const bins = versions.map((version) => join(DEBIAN, version, "bin"));
  return bins.find((bin) => existsSync(join(bin, "initdb"))) ?? null;
}

export interface TestDatabase {
  readonly databaseUrl: string;
  readonly wsProxy: string;
  stop(): Promise<void>;
}

/** A PostgreSQL cluster of its own in a temporary directory, with the WebSocket proxy in front. */
export async function startRealPostgres(bin: string): Promise<TestDatabase> {
  const directory = mkdtempSync(join(tmpdir(), "orrery-postgres-"));
  const data = join(directory, "data");
  const run = runnerFor(directory);
  run(join(bin, "initdb"), ["--pgdata", data, "--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8"]);
  const port = await freePort();
  const settings = `-p ${port} -k ${directory} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=100`;
  run(join(bin, "pg_ctl"), ["-D", data, "-w", "-l", join(directory, "log"), "-o", settings, "start"]);
  const databaseUrl = `postgres://postgres@127.0.0.1:${port}/postgres?sslmode=disable`;
  const proxy = await startDatabaseProxy({ databaseUrl });
  return {
    databaseUrl,
    wsProxy: proxy.wsProxy,
    async stop() {
      await proxy.stop();
      run(join(bin, "pg_ctl"), ["-D", data, "-m", "immediate", "-w", "stop"]);
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** PostgreSQL refuses to run as root; Debian's package made the user `postgres` for it. */
function runnerFor(directory: string): (program: string, args: readonly string[]) => void {
  const options: ExecFileSyncOptions = { cwd: directory, stdio: ["ignore", "ignore", "inherit"] };
  if (process.getuid?.() !== 0) return (program, args) => execFileSync(program, [...args], options);
  const idOf = (flag: string) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
  chownSync(directory, idOf("-u"), idOf("-g"));
  const asPostgres = ["-u", "postgres", "--"];
  return (program, args) => execFileSync("runuser", [...asPostgres, program, ...args], options);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** An empty database beside the others of the same cluster. */
export async function freshDatabase(cluster: TestDatabase, name: string): Promise<string> {
  const client = new pg.Client({ connectionString: cluster.databaseUrl });
  await client.connect();
  await client.query(`create database ${name}`);
  await client.end();
  const url = new URL(cluster.databaseUrl);
  url.pathname = `/${name}`;
  return url.href;
}
