import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { deriveNodeToken } from "../../../domain/auth/node-token.ts";

const SECRET = "a-master-secret-that-is-long-enough-for-it";
const NODE = "01932c07-0000-7000-8000-000000000001";

describe("a node token", () => {
  it("is the HMAC of node and generation under the master secret", async () => {
    const expected = createHmac("sha256", SECRET).update(`orrery-node-token:${NODE}:3`).digest("hex");
    expect(await deriveNodeToken(SECRET, NODE, 3)).toBe(expected);
  });

  it("is another for each node, generation and secret", async () => {
    const tokens = [
      await deriveNodeToken(SECRET, NODE, 1),
      await deriveNodeToken(SECRET, NODE, 2),
      await deriveNodeToken(SECRET, `${NODE}x`, 1),
      await deriveNodeToken(`${SECRET}x`, NODE, 1),
    ];
    expect(new Set(tokens).size).toBe(4);
  });
});
