import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";

/** What the runner knows of a host. It is on the disk before the agent is started, so that no host is ever unknown. */
const recordSchema = z.object({
  providerHostId: z.string(),
  tag: z.string(),
  region: z.string(),
  instanceType: z.string(),
  createdAt: z.number(),
  power: z.enum(["on", "off"]),
  /** Whether the first boot has started the agent; a killed agent is not started again unless asked. */
  booted: z.boolean(),
  ports: z.record(z.string(), z.number()),
});
export type HostRecord = z.output<typeof recordSchema>;

/** The directories of hosts, one a host, named by its id. */
export class HostRecords {
  readonly #root: string;

  constructor(dataDir: string) {
    this.#root = join(dataDir, "hosts");
  }

  directory(providerHostId: string): string {
    return join(this.#root, providerHostId);
  }

  /** Every host on the disk. A directory without a record is a create that never came to be: `orphans`. */
  async load(): Promise<{ readonly records: readonly HostRecord[]; readonly orphans: readonly string[] }> {
    await mkdir(this.#root, { recursive: true });
    const names = await readdir(this.#root);
    const entries = await Promise.all(names.map(async (name) => ({ name, record: await this.#read(name) })));
    return {
      records: entries.flatMap(({ record }) => (record === null ? [] : [record])),
      orphans: entries.flatMap(({ name, record }) => (record === null ? [name] : [])),
    };
  }

  async #read(name: string): Promise<HostRecord | null> {
    try {
      return recordSchema.parse(JSON.parse(await readFile(join(this.directory(name), "host.json"), "utf8")));
    } catch {
      return null;
    }
  }

  async write(record: HostRecord): Promise<void> {
    const path = join(this.directory(record.providerHostId), "host.json");
    await writeDurably(`${path}.new`, JSON.stringify(record, null, 2), 0o600);
    await rename(`${path}.new`, path);
  }

  async remove(providerHostId: string): Promise<void> {
    await rm(this.directory(providerHostId), { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  }
}

/** Writes a file and waits until the disk has it. */
export async function writeDurably(path: string, content: string, mode: number): Promise<void> {
  const file = await open(path, "w", mode);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}
