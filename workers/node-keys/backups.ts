/** Copies of nodes' keys beside Postgres: what stands there, encrypted as it is there. */
export interface KeyBackups {
  /** Null when there is none. */
  read(nodeId: string): Promise<string | null>;
  /** Writes the copy unless there is one already, which stays as it is. */
  create(nodeId: string, text: string): Promise<void>;
  remove(nodeId: string): Promise<void>;
}

/** In R2, one object a node. */
export function r2KeyBackups(bucket: R2Bucket, tenant: string): KeyBackups {
  const keyOf = (nodeId: string) => `${tenant}/${nodeId}.json`;
  return {
    async read(nodeId) {
      const stored = await bucket.get(keyOf(nodeId));
      return stored === null ? null : stored.text();
    },
    async create(nodeId, text) {
      await bucket.put(keyOf(nodeId), text, {
        onlyIf: { etagDoesNotMatch: "*" },
        httpMetadata: { contentType: "application/json" },
      });
    },
    async remove(nodeId) {
      await bucket.delete(keyOf(nodeId));
    },
  };
}
