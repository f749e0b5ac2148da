import { z } from "zod";
import { OrreryError } from "../domain/errors.ts";

/** A pushed version of a chain's files, stored under its content hash: what is there never changes. */
const storedSchema = z.object({ files: z.record(z.string(), z.string()) });

export async function writeChainFiles(
  bucket: R2Bucket,
  tenant: string,
  chain: string,
  contentHash: string,
  files: Readonly<Record<string, string>>,
): Promise<void> {
  await bucket.put(storageKey(tenant, chain, contentHash), JSON.stringify({ files }));
}

/** @throws chain_not_found when this version was never pushed */
export async function readChainFiles(
  bucket: R2Bucket,
  tenant: string,
  chain: string,
  contentHash: string,
): Promise<Readonly<Record<string, string>>> {
  const stored = await bucket.get(storageKey(tenant, chain, contentHash));
  if (stored === null)
    throw new OrreryError("chain_not_found", `The version ${contentHash} of ${chain} is not stored.`);
  return storedSchema.parse(await stored.json()).files;
}

function storageKey(tenant: string, chain: string, contentHash: string): string {
  return `${tenant}/${chain}/${contentHash}.json`;
}
